// Package malloc is the set of probes that count allocations on the Go heap: mallocgc, and the functions for one size class that
// compiled code calls instead. Each allocation is added to the sums of its goroutine, of its place (stack, type and size
// class), or of both. There is no event for an allocation.
//
// The central type is [Set]. Its tables are polled through the session that has it; [Set.Read] returns their contents.
//
// With [ByRequest] the set counts the allocations of goroutines in requests instead, in sums that the records of these have:
// probe.Want.Allocated receives them.
//
// # What is counted
//
// Every call with a size other than 0 is one object, as in runtime.MemStats.Mallocs. Bytes are those of
// runtime.MemStats.TotalAlloc: the size of the size class, or whole pages for large objects. The runtime combines objects
// without pointers of less than 16 bytes in blocks of 16 bytes (the tiny allocator): the object that begins a block counts
// 16 bytes, the others 0. Whether an object begins a block is read from the P before the runtime decides. If the allocation
// assists the garbage collector in between, the runtime may decide otherwise: the bytes may then differ by 16.
//
// Memory that is not allocated by mallocgc is not counted: stacks, persistentalloc, user arenas.
package malloc
