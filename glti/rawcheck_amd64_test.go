package glti

import (
	"reflect"
	"runtime"
	"testing"
	"unsafe"
)

// TestInstructions divides the functions of this program into instructions: the last one of a function ends where the next function begins.
func TestInstructions(t *testing.T) {
	at := reflect.ValueOf(runtime.GC).Pointer()
	functions, complete := 0, 0
	for range [1 << 16]struct{}{} {
		f := runtime.FuncForPC(at)
		if f == nil {
			break
		}
		end := f.Entry()
		for end < f.Entry()+1<<16 {
			if g := runtime.FuncForPC(end); g == nil || g.Entry() != f.Entry() {
				break
			}
			end++
		}
		code := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), end-at)
		i, n := 0, 1
		for ; i < len(code) && n > 0; i += n {
			n, _ = instruction(code[i:], i, len(code))
		}
		functions++
		if i == len(code) && n > 0 {
			complete++
		} else if n > 0 {
			t.Errorf("%s: an instruction ends %d bytes after the function", f.Name(), i-len(code))
		}
		at = end
	}
	t.Logf("%d of %d functions have known instructions only", complete, functions)
	if functions < 100 || complete < functions*9/10 {
		t.Errorf("%d of %d functions have known instructions only", complete, functions)
	}
}
