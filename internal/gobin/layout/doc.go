// Package layout provides the offsets of fields in the Go runtime's structs, for a Go release or for one executable.
//
// The central type is [Layout]. It contains the offsets and sizes of fields, the values of the runtime's constants, and
// the texts of its wait reasons. Each of them has one name for all releases, even if the releases use different names. A
// Layout comes from one of two sources:
//
//   - [FromDWARF] reads the structs from the debug information of an executable. This layout is correct even if the
//     runtime was patched or the release is unknown.
//   - [ForVersion] reads them from table.txt, which is embedded. The table covers Go 1.12 and later on amd64 and arm64. It
//     is generated from programs built by the actual toolchains and never edited by hand.
//
// A Layout records its Source. If it is only that of the nearest known release, the caller must verify it against the
// live process before use.
//
// # Names
//
// The path of a field consists of the name of the struct and the names of the fields: "runtime.g.sched.sp". A nested
// struct is listed as a whole ("runtime.g.sched") and by its fields. An embedded struct has the name of its type
// ("runtime.m.mOS.profileTimer"). Slices have the fields array, len and cap, strings have str and len, and interfaces have
// tab or _type, and data. The types of the atomic packages are replaced by the type of the value that they wrap. An array
// is a single field. Blank fields and fields of size zero are omitted.
//
// Names are those of the files of package runtime. Types that newer releases define in internal/abi have their older names
// (runtime._type, runtime.itab, runtime.funcID_wrapper). The structs of runtime.work and runtime.semtable are named
// runtime.workType and runtime.semTable, also in releases in which they have no name.
//
// # Adding a Go release
//
// This command builds a program with the new toolchain for both architectures and adds its layouts to the table:
//
//	go run ./internal/gobin/layout/gen -add 1.27.5
//
// go generate rebuilds all releases. CI runs gen -check -latest, which fails if the table differs from the layouts of the
// latest release of each minor version.
package layout
