//go:build linux && (amd64 || arm64)

package memtrace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
)

var enabling struct {
	once sync.Once
	err  error
}

// enable patches the allocator, once.
func enable() error {
	enabling.once.Do(func() {
		if err := install(); err != nil {
			enabling.err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	})
	return enabling.err
}

// alteration is a set of patches that are in place.
type alteration struct {
	patched []patch
	names   []string // the functions they are in
}

// allocation counts allocations.
var allocation alteration

// unpatched is the code of the runtime as it was before.
var unpatched *text

func install() error {
	fillClasses()
	v := goroutines.allocate(firstBuckets)
	current = addressOf(v)
	text, err := findText()
	if err != nil {
		return err
	}
	places, err := text.places()
	if err != nil {
		return err
	}
	if err := openWake(); err != nil {
		return err
	}
	if err := allocation.make(places, selfTest); err != nil {
		return errors.Join(err, closeWake())
	}
	unpatched = text
	return nil
}

// make patches functions and tests the result. If that fails, the functions are as before.
func (a *alteration) make(places []place, test func() error) error {
	patches, err := prepare(places)
	if err != nil {
		return err
	}
	if err = patches.apply(); err == nil {
		err = test()
	}
	if err != nil {
		return errors.Join(err, patches.undo())
	}
	a.patched, a.names = patches.new, namesOf(places)
	return nil
}

// changed returns the name of a function whose patch is not in place, or "". A breakpoint replaces the first byte of an
// instruction.
func changed(a *alteration) string {
	for i := range a.patched {
		if *(*byte)(pointerTo(a.patched[i].to)) != a.patched[i].bytes[0] {
			return a.names[i]
		}
	}
	return ""
}

func openWake() error {
	fd, _, e := syscall.RawSyscall(eventfdNumber, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if e != 0 {
		return os.NewSyscallError("eventfd2", e)
	}
	wake = int32(fd)
	return nil
}

func closeWake() error { return os.NewSyscallError("close", syscall.Close(int(wake))) }

var eventfdNumber = map[string]uintptr{"amd64": 290, "arm64": 19}[runtime.GOARCH]

var watching sync.Once

// watch starts the goroutine that cancels the contexts of traces that have passed a limit.
func watch() {
	watching.Do(func() {
		events := os.NewFile(uintptr(wake), "eventfd")
		go func() {
			b := make([]byte, 8)
			for {
				if _, err := events.Read(b); err != nil && !errors.Is(err, syscall.EAGAIN) {
					return // cannot happen; contexts are then canceled by those who ask
				}
				cancelFired()
			}
		}()
	})
}

// tested keeps the objects of selfTest on the heap.
var tested [4]any

// selfTest checks the counts of known allocations.
func selfTest() error {
	c := newCell(nil, gaugeLists{})
	before := pause()
	c.attach()
	tested = [4]any{new([24]byte), new([40]*int), new([700]*int), make([]int64, 5000)}
	c.detach()
	got := c.usage()
	runtime.KeepAlive(tested)
	tested = [4]any{}
	goroutines.swap(getg(), before)
	// The last is a slice in an interface: its header is an object, too.
	want := usage{bytes: 24 + 320 + 6144 + 40960 + 24, objects: 5, calls: 5, elements: 1 + 1 + 1 + 5000 + 1}
	if got != want {
		return fmt.Errorf("a test of the patched allocator counted %+v, not %+v", got, want)
	}
	return nil
}
