// Package allocs has the numbers of the allocations of a program: objects and bytes on the Go heap, by goroutine, by the go
// statement that created it, by allocating function, by size class and by type.
//
// The central type is [Counts]. A session that counts allocations returns one ([github.com/loupe-go/loupe.Session.Allocs]), and
// [Counts.Since] the difference of two. [Counts.By] groups them.
//
// The numbers are exact: each allocation is counted when it happens, and none is sampled. Objects are those of
// runtime.MemStats.Mallocs, bytes those of runtime.MemStats.TotalAlloc: the sizes of size classes, and whole pages for objects of
// more than about 32 KiB. The runtime combines objects without pointers of less than 16 bytes in blocks of 16 bytes. The first
// object of a block counts 16 bytes, and the others count none; their number is Sums.Tiny. If an allocation waits
// for the garbage collector after it was counted, the runtime may begin a block elsewhere than expected. So the bytes of tiny objects
// are exact while no garbage collection runs, and otherwise differ by 16 bytes for some of these waits.
package allocs
