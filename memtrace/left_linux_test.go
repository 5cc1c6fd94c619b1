package memtrace

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
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
	mapped, files := lowMappings(t), eventfds(t)
	if err := Supported(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "mprotect") {
		t.Error(err)
	}
	if now := lowMappings(t); !slices.Equal(now, mapped) {
		t.Errorf("mappings %v, before %v", now, mapped)
	}
	if now := eventfds(t); !slices.Equal(now, files) {
		t.Errorf("files %v, before %v", now, files)
	}
}

// lowMappings returns the mappings below the Go heap, which do not grow.
func lowMappings(t *testing.T) []mapping {
	t.Helper()
	maps, err := readMaps()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(maps, func(m mapping) bool { return m.start >= 0xC0<<32 || m.path == "[heap]" })
}

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
