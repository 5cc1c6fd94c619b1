/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How machine code in the target reads memory: by loads where that cannot fault, and otherwise by a system call. native.h includes this
 * file, and says what can be read without a check.
 */
#ifndef LOUPE_MEMORY_H
#define LOUPE_MEMORY_H

/* Whether a Go pointer is plausible: aligned, above the lowest mappable address, below the kernel's addresses. */
INLINE int plausible(u64 addr, u32 align)
{
	u32 low = __builtin_ctz(align);
	u64 above = addr - 0x10000;

	/* Bits below the alignment become the highest bits, which makes the value too large. */
	return (low ? above >> low | above << (64 - low) : above) < (USER_END - 0x10000) >> low;
}

/*
 * Reads memory; returns nonzero for an address that no Go pointer can have. Each word is read once, so that it is consistent
 * even if the program changes it meanwhile.
 */
INLINE int read_memory(void *dst, u32 size, u64 addr)
{
	if (!plausible(addr, size < 8 ? size : 8))
		return 1;
	if (size == 1)
		*(u8 *)dst = *(volatile u8 *)addr;
	else if (size == 4)
		*(u32 *)dst = *(volatile u32 *)addr;
	else
		for (u32 i = 0; i < size / 8; i++)
			((u64 *)dst)[i] = ((volatile u64 *)addr)[i];
	return 0;
}

#if defined(__TARGET_ARCH_x86)
INLINE s64 read_process(u64 pid, const u64 *local, const u64 *remote)
{
	register const u64 *r10 asm("r10") = remote;
	register u64 r8 asm("r8") = 1;
	register u64 r9 asm("r9") = 0;
	s64 result = 310; /* process_vm_readv */

	asm volatile("syscall" : "+a"(result) : "D"(pid), "S"(local), "d"(1ull), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return result;
}
#elif defined(__TARGET_ARCH_arm64)
INLINE s64 read_process(u64 pid, const u64 *local, const u64 *remote)
{
	register u64 x0 asm("x0") = pid;
	register const u64 *x1 asm("x1") = local;
	register u64 x2 asm("x2") = 1;
	register const u64 *x3 asm("x3") = remote;
	register u64 x4 asm("x4") = 1;
	register u64 x5 asm("x5") = 0;
	register u64 x8 asm("x8") = 270; /* process_vm_readv */

	asm volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5), "r"(x8) : "memory");
	return x0;
}
#endif

/* Sizes of the runtime, the same in all releases (malloc.go). goproc.StableMemory compares them with the target. */
enum {
	ARENA_SHIFT = 26,
	PAGE_SHIFT = 13,
	PAGES = 1 << (ARENA_SHIFT - PAGE_SHIFT), /* of an arena */
};

/* Reads memory by a system call of the process on itself, if that is allowed. Returns nonzero if the memory cannot be read. */
FUNCTION int read_checked(void *dst, u32 size, u64 addr)
{
	u64 local[2] = {(u64)dst, size}, remote[2] = {addr, size};

	return !__atomic_load_n(&SHARED()->control.reads, __ATOMIC_RELAXED) || read_process(native.pid, local, remote) != size;
}

/*
 * Finds the heap of a program that had not started when the probes were put there, as goproc.StableMemory does it from outside, with the
 * current g. The reader does the same, but a program can send its first request before. Returns 0 while the heap is unknown.
 */
FUNCTION u64 learn_arenas(void)
{
	u64 g = lane()->g, page = (g + native.arena_base) >> PAGE_SHIFT, arenas = *(volatile u64 *)native.arenas_at;
	u64 arena, span, start, pages, none = 0;

	if (!arenas)
		return 0;
	for (u32 i = 0; i < 2; i++)
		if (native.faults[i] && *(volatile u32 *)native.faults[i])
			return 0;
	if (read_checked(&arena, 8, arenas + (page >> (ARENA_SHIFT - PAGE_SHIFT)) * 8) || !arena ||
	    read_checked(&span, 8, arena + native.arena_spans + (page & (PAGES - 1)) * 8) || !span ||
	    read_checked(&start, 8, span + native.span_start) || read_checked(&pages, 8, span + native.span_pages) || g < start || (g - start) >> PAGE_SHIFT >= pages)
		return 0;
	/* The reader may have found out that the heap must not be used. */
	__atomic_compare_exchange_n(&SHARED()->arenas, &none, arenas, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return none && none != arenas ? 0 : arenas;
}

/* The address of the heapArena structs by index; 0: unknown. */
INLINE u64 heap_arenas(void)
{
	u64 arenas;

	if (native.arenas || !native.arenas_at)
		return native.arenas;
	arenas = __atomic_load_n(&SHARED()->arenas, __ATOMIC_RELAXED);
	return arenas == LOUPE_NO_ARENAS ? 0 : arenas ? arenas : learn_arenas();
}

/*
 * Whether the runtime has stored a span for a page of its address space. It has mapped the page before, and keeps it readable: see
 * goproc.StableMemory. It never frees the two arrays, and other threads replace whole words in them.
 */
INLINE int has_span(u64 arenas, u64 page)
{
	u64 arena = *(volatile u64 *)(arenas + (page >> (ARENA_SHIFT - PAGE_SHIFT)) * 8);

	return arena && *(volatile u64 *)(arena + native.arena_spans + (page & (PAGES - 1)) * 8);
}

/* Whether all of size bytes below USER_END, at most a page, belong to the heap. */
INLINE int in_heap(u64 addr, u64 size)
{
	u64 first = (addr + native.arena_base) >> PAGE_SHIFT, last = (addr + native.arena_base + size - 1) >> PAGE_SHIFT, arenas = heap_arenas();

	return arenas && last - first <= 1 && has_span(arenas, first) && (last == first || has_span(arenas, last));
}

/* Whether all of size bytes below USER_END belong to the heap, or to a part of the executable. */
INLINE int readable(u64 addr, u64 size)
{
	if (in_heap(addr, size))
		return 1;
	for (u32 i = 0; i < LOUPE_IMAGE_PARTS; i++) {
		u64 at = addr - native.image[2 * i];

		if (at < native.image[2 * i + 1] && size <= native.image[2 * i + 1] - at)
			return 1;
	}
	return 0;
}

/* Copies bytes, which the program may change meanwhile. */
INLINE void copy(void *dst, u32 size, u64 addr)
{
	u32 i = 0;

	for (; i + 8 <= size; i += 8)
		*(u64 *)((u8 *)dst + i) = *(volatile u64 *)(addr + i);
	for (; i < size; i++)
		((u8 *)dst)[i] = *(volatile u8 *)(addr + i);
}

/*
 * Reads memory that need not be valid: by loads if the memory is known to be readable, otherwise by a system call of the process on
 * itself, which fails where a load would crash the program. Returns nonzero if the memory cannot be read, or if the system call is
 * required and not allowed. The call does not block, changes no memory but dst, and has its error in the result: errno is not touched.
 */
FUNCTION int read_foreign(void *dst, u32 size, u64 addr)
{
	if (addr - 0x10000 >= USER_END - 0x10000)
		return 1;
	if (addr + size <= USER_END && readable(addr, size)) {
		copy(dst, size, addr);
		return 0;
	}
	return read_checked(dst, size, addr);
}

#endif
