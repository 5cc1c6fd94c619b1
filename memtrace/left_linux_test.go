package memtrace

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// TestNothingLeft has the kernel forbid what patching needs, and checks that no memory and no file is left then.
func TestNothingLeft(t *testing.T) {
	own, out, err := ownProcess(t)
	if !own {
		if err != nil {
			t.Error(err, out)
		}
		if strings.Contains(out, "--- SKIP") {
			t.Skip(out)
		}
		return
	}
	const setMDWE, refuseExecGain = 65, 1
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, setMDWE, refuseExecGain, 0, 0, 0, 0); e != 0 {
		t.Skip("the kernel has no PR_SET_MDWE:", e)
	}
	mapped, files := nearMappings(t), eventfds(t)
	if err := Supported(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "mprotect") {
		t.Error(err)
	}
	if now := nearMappings(t); !slices.Equal(now, mapped) {
		t.Errorf("mappings %v, before %v", now, mapped)
	}
	if now := eventfds(t); !slices.Equal(now, files) {
		t.Errorf("files %v, before %v", now, files)
	}
}

// nearMappings returns the mappings in reach of stubs of the program's code, except for the Go heap and the heap of C, which grow.
// Since Go 1.26 the Go heap is at a random address, which may be in reach.
func nearMappings(t *testing.T) []mapping {
	t.Helper()
	maps, err := readMaps()
	if err != nil {
		t.Fatal(err)
	}
	const arena = 64 << 20
	code, heap := reflect.ValueOf(Supported).Pointer(), uintptr(unsafe.Pointer(onHeap))&^(arena-1)
	return slices.DeleteFunc(maps, func(m mapping) bool {
		far := m.start > code+2*hookReach || m.end+2*hookReach < code
		return far || m.path == "[heap]" || m.end > heap-arena && m.start < heap+2*arena
	})
}

// onHeap is an object on the Go heap.
var onHeap = new([64]byte)

// eventfds returns the eventfds of the process.
func eventfds(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.Contains(name, "eventfd") {
			list = append(list, e.Name())
		}
	}
	return list
}
