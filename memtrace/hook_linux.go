//go:build linux && (amd64 || arm64)

package memtrace

// hookKind is a function of the assembly that stubs call.
type hookKind uint8

const (
	hookPlain hookKind = iota // counts an allocation
	hookInner                 // the same, in a function that the allocator also calls itself
	hookStart                 // in newproc: the start of a goroutine
	hookKinds
)

// Variables of the assembly.
var (
	hooks [hookKinds]uintptr // their addresses
	outer [4]uint64          // address and size of the functions whose calls of others do not count

	newproc     uintptr    // its address
	childCode   uintptr    // of the functions that descendant returns
	runtimeCode [2]uintptr // address and size of the code of package runtime, whose goroutines do not inherit

	wake int32 // a file descriptor (eventfd) that the hook writes to when a gauge has fired

	fine   [fineMax/fineStep + 1]uint16             // size classes of the sizes up to fineMax, in steps of fineStep
	coarse [(sizeMax-fineMax)/coarseStep + 1]uint16 // and of larger ones, less fineMax, in steps of coarseStep
)

const (
	sizeMax    = 32 << 10 // larger objects have no size class
	fineMax    = 1024
	fineStep   = 8
	coarseStep = 128
)

// Implemented in assembly.
func getg() uintptr
func pokeAll(list *patch, n int)
func inherit()

// patch is what pokeAll copies.
type patch struct {
	to    uintptr  // offset 0
	n     uint64   // 8
	bytes [16]byte // 16
}

// fillClasses fills the tables of size classes with what the runtime says: it extends a slice of bytes to a whole class.
func fillClasses() {
	class := 0
	for size := 1; size <= sizeMax; size++ {
		if size > class {
			class = cap(append([]byte(nil), make([]byte, size)...))
		}
		if size <= fineMax {
			fine[(size+fineStep-1)/fineStep] = uint16(class)
		} else {
			coarse[(size-fineMax+coarseStep-1)/coarseStep] = uint16(class)
		}
	}
}
