// Package overlay makes the patched runtime that `loupe go` compiles into a program.
//
// The central type is [Overlay]: a set of files that replace files of package runtime, and of a few packages that belong to it, in one
// toolchain's own GOROOT/src. The go command reads them through its flag -overlay, so neither the toolchain nor the program's source
// changes. [Find] asks the go command which toolchain it uses, [Make] writes the overlay for it, and [Prepare] does both and returns the
// go command that uses it.
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
// A file of another language than Go, such as the C files of package runtime/cgo, has code and lines, but no declarations. In a patch, $$ is
// a dollar sign, and LOUPE_PACKAGES the list of the toolchain's packages.
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
// # Agents
//
// The flags -agent and -agents of a go command line are Loupe's own. They add imports to a file of each program, through the same
// overlay, and register the agent in one of its own files (agents.go, agentpkg.go). Both files are made from those of the user for each
// build. They are kept in the cache until they have not been used for a month.
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
//	rt_stamp() string
//	    the fingerprint, between marks
//	rt_self() (g uintptr, goid uint64)
//	    the running goroutine
//	rt_local(g uintptr, goid uint64) unsafe.Pointer
//	    the storage that rt_setLocal stored for a goroutine; nil if it has none or has ended. Any goroutine may call it for any other
//	rt_setLocal(g uintptr, goid uint64, box unsafe.Pointer) unsafe.Pointer
//	    stores the storage of a goroutine that has none. It begins with the goid, and the garbage collector follows it. The result is
//	    what the goroutine has then; nil if it has ended
//	rt_inherit(on bool)
//	    selects whether a new goroutine begins with what its creator has (patches/local.patch)
//	rt_given(g uintptr, goid uint64) unsafe.Pointer
//	    what a goroutine began with; nil if that is nothing, or if it has ended
//	rt_enable(mask uint64)
//	    selects the events: bit e selects event e. Any goroutine may call it at any time
//	rt_deliver(fn *func(record))
//	    sets the function that receives the events of class A, on the goroutine that causes them
//	rt_drain(into []record) int
//	    moves the oldest events of class C from the buffers, and those of class A that could not be delivered, in the order in which they
//	    were written. It returns fewer than there is room for if there are no more. One caller at a time
//	rt_lost() uint64
//	    the number of events for which the buffers had no memory
//	rt_inState(event uint8, into []gltiID) int
//	    writes the goroutines that are in the state of an event, GoWaiting or GoInSyscall, and returns how many there are; see patches/states.patch
//	rt_proc(id int32) uintptr
//	    the address of a processor; 0 if there was none with that number
//	rt_wait(ns int64)
//	    is how the caller of rt_drain sleeps
//	rt_raw(at int, callback unsafe.Pointer, mask uint64)
//	    sets the raw callback at a place of the array, a *gltiRaw that is never freed, or nil, and the events for which there are any
//	rt_count(mask uint64)
//	    selects the events that are counted
//	rt_counted(event uint8) uint64
//	    the number of events while they were counted
//	rt_quiet()
//	    ends the reporting of events of the running goroutine, and of those that it creates
//	rt_panicked(fn *func(any))
//	    sets the function that receives the value of an unhandled panic, on the goroutine that panicked
//
//	rt_annotated(fn *func(event uint8, time int64, g uintptr, goid, arg0, arg1 uint64, text0, text1 string))
//	    sets the function that receives the annotations of runtime/trace, on the goroutine that makes them
//
//	rt_cpuStart(hz int32) bool
//	    starts the CPU profile of an agent; false if there is one, or one that has not been read to its end
//	rt_cpuStop()
//	    ends it
//	rt_cpuRead() (data []uint64, tags []unsafe.Pointer, eof bool)
//	    returns its samples (patches/cpuprof.patch). One caller at a time
//	rt_blockRate(rate int), rt_mutexRate(rate int)
//	    set the rates of the block and mutex profiles of an agent; 0 for no profile
//	rt_contentionRead() []uint64
//	    returns the samples of both (patches/contention.patch). One caller at a time
//	rt_profileIDs(ids []G)
//	    selects where the goroutines of a goroutine profile are stored that the running goroutine makes; nil ends that. Others wait until then
//	rt_threads(after int64, into []rtThread) (n int, next int64)
//	    the threads that were created after the one with a number (patches/created.patch)
//	rt_heapRate(client, rate int)
//	    sets the rate of the heap profile of one of 8 agents; 0 ends it (patches/heapprof.patch)
//	rt_heapRead(client int, at uintptr, rec *heapRecord) uintptr
//	    stores the bucket of the profile after the one at, 0 for the first; 0 if there is no other
//	rt_countAllocs(on bool)
//	    begins to count what each goroutine allocates, or ends that
//	rt_allocs(g uintptr, goid uint64) (bytes, objects uint64, ok bool)
//	    what a goroutine has allocated while that was counted; not ok if it has ended
//	rt_allocsEnded() (bytes, objects uint64)
//	    what goroutines have allocated that have ended
//
//	rt_argInfo(pc uintptr) (info unsafe.Pointer, ok bool)
//	    the description of the parameters of the function that begins at pc, nil if it has none; not ok for functions in assembly
//	rt_types() (begin, end uintptr)
//	    where the types of the executable are
//	rt_stacks(depth uint32)
//	    selects how many addresses of a stack are recorded, at most 128; 0 for no stacks
//	rt_stack(id uint64, into []uintptr) int
//	    the addresses of a stack that a record names (patches/stream.patch)
//	rt_stacksFull() uint64
//	    how often a stack had no room in the table
//	rt_goroutines(from int, into []gltiGoroutine) (n, next int)
//	    describes the goroutines, from a position of the list of all on; the next position is 0 at the end
//	rt_waitReason(n uint8) string
//	    the text of a wait reason; "" if there is no such reason
//	rt_heapLive() uint64
//	    the size of the heap that the runtime compares with the goal
//	rt_calls(pc uintptr, into []gltiFrame) int
//	    the calls at an address, inlined ones first
//	rt_traceReason(n uint8) string
//	    the text of a reason of the execution tracer; "" before Go 1.22
//	rt_startPC(pc uintptr) uintptr
//	    the function that a go statement names, where the compiler has made a wrapper of it
//
//	rt_newEnv(fn func(name string) unsafe.Pointer)
//	    sets the function that makes the environment of an agent that is loaded at run time, a *GLTIEnv
//	rt_linked(init func())
//	    sets the function that initializes the agents that are linked into the program; it is called before main.main
//	rt_atEnd(name string, end func(code int))
//	    adds a function that is called when the program ends, unless the runtime throws (patches/ends.patch)
//
// # Symbols for runtime/cgo and plugin
//
// Native agents are loaded by C code that is appended to package runtime/cgo (patches native, env, events, functions, profiles, reader, samples,
// shutdown and variants), Go agents by code in package plugin (patch plugin). What package runtime/cgo and the runtime share is gltiCall, gltiRuntime,
// gltiDelivery, gltiNatives, gltiNativeBox, gltiSamples and gltiVariants.
//
// A record is gltiRecord in patches/base.patch. The numbers of the events are there, too.
package overlay
