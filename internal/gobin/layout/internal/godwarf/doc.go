// Package godwarf reads the struct types of package runtime from the DWARF data of a Go program. It is fast because it
// reads little else.
//
// The only function is [Read]. The Go linker puts the types of the whole program into a single compile unit with the name
// "runtime" (cmd/link/internal/ld/dwarf.go), at an arbitrary position among the units of the packages. Read processes
// .debug_info as a stream from its start, because the section is usually compressed. It uses their length to skip the units
// of other packages and other languages, and decompresses nothing after the unit with the types. For each type in that unit
// it keeps a few words, and for structs that may be part of a wanted struct also the members. The wanted structs are
// assembled from these at the end.
//
// The package supports DWARF versions 2 to 5. The input is treated as hostile: the limits in this package bound memory and
// time, and inconsistent data results in [ErrCorrupt].
package godwarf
