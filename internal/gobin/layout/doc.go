// Package layout knows where the fields of the Go runtime's structs are, for a release of Go or for one executable.
//
// Its central type is Layout: offsets and sizes of fields, the values of the runtime's constants, and the texts of its
// wait reasons, under one name each whatever a release calls them. A Layout comes from one of two places:
//
//   - FromDWARF reads the structs out of an executable's own debug information. This is the truth about that executable,
//     also when its runtime was patched or its release is unknown.
//   - ForVersion reads them out of table.txt, which is embedded. It covers the releases since Go 1.12 on amd64 and arm64
//     and is made from programs that the real toolchains built, never by hand.
//
// A Layout tells its Source. One that is only the nearest known is for a caller to verify against the live process
// before use.
//
// # Names
//
// A path is the struct's name and the names of fields: "runtime.g.sched.sp". Nested structs are there both whole
// ("runtime.g.sched") and taken apart, embedded ones by the name of their type ("runtime.m.mOS.profileTimer"). Slices
// have the fields array, len and cap, strings str and len, interfaces tab or _type, and data. The types of the atomic
// packages stand for the value they wrap. Arrays are one field. Blank fields and those without a size are left out.
//
// Names are those of the runtime's own files; what newer releases keep in internal/abi goes by its older name
// (runtime._type, runtime.itab, runtime.funcID_wrapper). The structs of runtime.work and runtime.semtable are called
// runtime.workType and runtime.semTable in releases that do not name them, too.
//
// # A new Go release
//
// One command builds a program with the new toolchain for both architectures and adds what it finds to the table:
//
//	go run ./internal/gobin/layout/gen -add 1.27.5
//
// go generate builds all releases anew; gen -check -latest, which CI runs, fails if the table is not what the last
// release of each minor gives.
package layout
