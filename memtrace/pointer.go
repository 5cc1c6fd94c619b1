package memtrace

import "unsafe"

// addressOf returns the address of what p points to.
func addressOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// pointerTo returns a pointer to memory that the garbage collector does not manage.
func pointerTo(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
