// Package library provides the offsets of fields in the structs of libraries, by version: the standard library and other
// modules. They are for executables without DWARF. Package layout does the same for the structs of the runtime.
//
// The central type is [Range]. It is a range of versions of a module in which a field has one offset. The ranges come from
// table.txt, which is embedded. A program calls [Ranges] to get all ranges of a field, and [Lookup] for one version.
//
// # Names
//
// The path of a field consists of the import path of the package, the name of the struct, and the names of the fields:
// "net/http.Request.URL". An embedded struct has the name of its type. If a struct or a field has another name in other
// versions, the table has a path for each name, and each path has the versions with that name.
//
// A package can move from one module to another. Then the ranges of a field belong to two modules.
//
// # Unknown versions
//
// A range ends where the offset is not known to be the same. The newest range of a field includes the patch releases of the
// newest minor version that was examined, but not the next minor version. If an offset changes between two versions, the
// versions between them are in no range, for example the pre-releases of the newer one.
//
// Offsets are the same on amd64 and arm64. A program that was built with a non-default GOEXPERIMENT can have other ones.
//
// # Updating the table
//
// Command gen computes the offsets from the sources of each version. It type-checks the declarations of the structs, and
// builds nothing:
//
//	go generate ./internal/gobin/library                              # all modules
//	go run ./internal/gobin/library/gen -only google.golang.org/grpc  # one module
//
// The lists of modules, structs and fields are in gen/wanted.go, wantedstd.go and wantedmodules.go. The releases of Go are
// the first one of each minor version and those in package testtarget.
package library
