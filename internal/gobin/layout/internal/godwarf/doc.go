// Package godwarf reads the struct types of package runtime out of a Go program's DWARF, and little else, fast.
//
// Its one function is Read. The Go linker puts the types of the whole program into one compile unit that is called
// "runtime" (cmd/link/internal/ld/dwarf.go), somewhere among the units of the packages. Read streams .debug_info, which
// is usually compressed, from its start: units of other packages and of other languages are passed over by their
// length, and nothing behind the unit of the types is decompressed. Of each type in it a few words are kept, of structs
// that may be part of a wanted one the members too; the wanted structs are put together from these at the end.
//
// DWARF versions 2 to 5 are understood. The input is taken as hostile: memory and time are bounded by the limits of
// this package, and what does not add up is ErrCorrupt.
package godwarf
