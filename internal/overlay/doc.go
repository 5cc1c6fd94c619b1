// Package overlay makes the patched runtime that `loupe go` compiles into a program.
//
// The central type is [Overlay]: a set of files that replace files of one toolchain's own GOROOT/src/runtime. The go command
// reads them through its flag -overlay, so neither the toolchain nor the program's source changes. [Find] asks the go command
// which toolchain it uses, [Make] writes the overlay for it, and [Overlay.Command] is the command line that uses it.
//
// # Patches
//
// Each concern is a file in the directory patches. It has edits and code:
//
//	== runtime/proc.go: func $destroy: before call dropg
//	gltiEndLocal(gp)
//
//	== runtime/proc.go: code
//	func gltiEndLocal(gp *g) { ... }
//
// The header of an edit is an anchor: a file, a declaration in it, and a place in the declaration. Anchors are found in the syntax
// tree. An anchor that is absent, or that is found twice, is an error that names the file and the declaration, and no overlay is
// written. The forms of places are documented at [place].
//
// The text of an edit is one line. It is inserted into a line of the file, so the lines of the file keep their numbers and
// tracebacks of a patched program show the lines of the original source. Code is appended to the file, after its last line. A file is
// never added to package runtime: go vet of Go 1.21 and 1.22 fails on files that are only in an overlay.
//
// Differences between Go releases are rows in the tables of releases.go: $destroy is the name of a function that has another
// name in some releases. A new Go release is a change of newest there, and the rows that TestAnchors then requires.
//
// # Files
//
// Since Go 1.25 the go command refuses to replace files in the module cache, where it keeps the toolchains that it downloads.
// For such a toolchain [Make] also makes a farm: a GOROOT outside the module cache, with links to the files of the toolchain.
//
// Overlays and farms are kept in a cache directory. They are named by a hash of what they are made from, are written under another
// name and then renamed, and are verified before use. So several commands can make the same overlay at the same time.
//
// # The stamp
//
// The patched runtime contains [Overlay.Fingerprint], a hash of the toolchain's release, of the replaced files and of the patches. It
// does not depend on the directory of the toolchain. Package gobin reads it from an executable.
//
// # Symbols for package glti
//
// Package glti of a program that is built with the tag [Tag] is compiled against functions of the patched runtime. The runtime
// pushes them by //go:linkname, as github.com/loupe-go/loupe/glti.NAME:
//
//	rt_self() (g unsafe.Pointer, goid uint64)
//	    the goroutine that runs
//	rt_local(g unsafe.Pointer, goid uint64) unsafe.Pointer
//	    the pointer that rt_setLocal stored for a goroutine; nil if there is none or the goroutine has ended. Any goroutine may call it
//	rt_setLocal(g unsafe.Pointer, goid uint64, p unsafe.Pointer) bool
//	    stores a pointer, which the garbage collector follows; false if the goroutine has ended
//	rt_word(g unsafe.Pointer, goid uint64) uintptr
//	rt_setWord(g unsafe.Pointer, goid uint64, w uintptr) bool
//	    the same for a word that the garbage collector ignores
//	rt_deliver(fn func(*Record))
//	    sets the function that receives the events of class A, on the goroutine that causes them; nil for none
//	rt_enable(mask uint64)
//	    selects the kinds of events: bit k selects kind k. Any goroutine may call it at any time
//	rt_drain(into []Record) int
//	    moves the oldest events of class C, and those of class A that could not be delivered, from the rings. One caller at a time
//	rt_lost() uint64
//	    the number of events for which the rings had no room
//
// Record and the numbers of the kinds are documented in patches/events.patch.
package overlay
