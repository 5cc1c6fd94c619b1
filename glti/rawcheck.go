package glti

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// errRawCalls is the error of a raw callback whose code could call something.
var errRawCalls = errors.New("the callback calls a function, or does what the compiler does by a call: allocate, check an index, write a pointer, grow the stack")

// maxRawCode is the maximum size of the code of a raw callback, in bytes.
const maxRawCode = 4 << 10

// checkRaw checks that the code of a raw callback neither calls nor jumps to other code. So it cannot allocate, lock, block, panic or grow the
// stack: all of these are calls. What it cannot find are endless loops and invalid addresses.
//
// Code with an instruction that the check does not know is refused too.
func checkRaw(cb func(*RawRecord)) error {
	entry := **(**uintptr)(unsafe.Pointer(&cb))
	f := runtime.FuncForPC(entry)
	if f == nil || f.Entry() != entry {
		return errors.New("the code of the callback is unknown")
	}
	size := uintptr(1)
	for ; size <= maxRawCode; size++ {
		if next := runtime.FuncForPC(entry + size); next == nil || next.Entry() != entry {
			break
		}
	}
	if size > maxRawCode {
		return fmt.Errorf("the code of the callback has more than %d bytes", maxRawCode)
	}
	if at, found := findCall(entry, unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&entry))), size)); found {
		file, line := f.FileLine(entry + at)
		return fmt.Errorf("%w (%s:%d)", errRawCalls, file, line)
	}
	return nil
}
