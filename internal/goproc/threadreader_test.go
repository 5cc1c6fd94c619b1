package goproc

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestThreadReader reads the state of a thread of this process that waits in a system call.
func TestThreadReader(t *testing.T) {
	p, err := Open(os.Getpid(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	type thread struct {
		tid   int
		local uint64 // address of a variable on the goroutine's stack
	}
	started, stop := make(chan thread, 2), make([]int, 2)
	if err := unix.Pipe(stop); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(stop[0])
	go func() {
		runtime.LockOSThread()
		var local [64]byte
		b := make([]byte, 1)
		unix.Read(-1, b) // the stack grows here, not below
		started <- thread{unix.Gettid(), uint64(uintptr(unsafe.Pointer(&local)))}
		unix.Read(stop[0], b) // until the pipe is closed
		started <- thread{int(local[b[0]]), 0}
	}()
	want := <-started
	defer unix.Close(stop[1])
	r, err := p.ThreadReader()
	if err != nil {
		t.Fatal(err)
	}
	copied := StackCopy{Addr: want.local, Data: make([]byte, 64)}
	s := ThreadState{PC: 1, SP: want.local, Stack: copied}
	if !r.Read(want.tid, &s) || s.M == 0 || s.G == 0 || s.GM != s.M || s.GoID == 0 || s.PC != 1 || want.local-s.StackLo >= s.StackHi-s.StackLo || len(s.Goroutine.Data) != 0 {
		t.Errorf("%+v", s)
	}
	id := s.GoID

	s = ThreadState{SP: 8} // on another stack
	if !r.Read(want.tid, &s) || s.GoID != id || len(s.Goroutine.Data) == 0 || s.Goroutine.Addr != s.SyscallSP {
		t.Errorf("on another stack: goroutine %d, want %d; %d bytes from %#x", s.GoID, id, len(s.Goroutine.Data), s.Goroutine.Addr)
	}

	copied.Data[7] = 'x'
	s = ThreadState{SP: want.local, Stack: copied}
	if r.Read(want.tid, &s) || s.M != 0 || s.G != 0 {
		t.Errorf("a stack that has changed: %+v", s)
	}
	if s = (ThreadState{}); !r.Read(1<<30, &s) || s.M != 0 {
		r.cost = 0 // the list of threads was read a moment ago
		if !r.Read(1<<30, &s) || s.M != 0 {
			t.Errorf("a thread that the runtime does not know: %+v", s)
		}
	}
	r.cost = 1 << 40
	if s = (ThreadState{}); r.Read(1<<30, &s) {
		t.Error("the list of threads was read again at once")
	}
}
