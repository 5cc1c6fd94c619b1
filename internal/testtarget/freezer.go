package testtarget

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Freezer is a cgroup whose processes can be frozen.
type Freezer struct {
	Root string // where the kernel's cgroups of its version are

	group                  string
	file, freeze, thaw     string
	stateFile, frozenState string
}

// freezers counts those that were made, for their names.
var freezers atomic.Int32

// Freezers makes a cgroup by each freezer that can be used, of both versions of cgroups. They are removed when the test and its
// targets have ended. It skips the test where there is none.
func Freezers(t *testing.T) []*Freezer {
	t.Helper()
	var usable []*Freezer
	for _, f := range []*Freezer{
		{Root: "/sys/fs/cgroup", file: "cgroup.freeze", freeze: "1", thaw: "0", stateFile: "cgroup.events", frozenState: "frozen 1"},
		{Root: "/sys/fs/cgroup/unified", file: "cgroup.freeze", freeze: "1", thaw: "0", stateFile: "cgroup.events", frozenState: "frozen 1"},
		{Root: "/sys/fs/cgroup/freezer", file: "freezer.state", freeze: "FROZEN", thaw: "THAWED", stateFile: "freezer.state", frozenState: "FROZEN"},
	} {
		f.group = filepath.Join(f.Root, fmt.Sprintf("loupe-test-%d-%d", os.Getpid(), freezers.Add(1)))
		if os.Mkdir(f.group, 0o755) != nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(f.group, f.file)); err != nil { // a mount point of other file systems
			os.Remove(f.group)
			continue
		}
		usable = append(usable, f)
		t.Cleanup(func() {
			for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
				if os.Remove(f.group) == nil {
					return
				}
			}
			t.Errorf("%s cannot be removed", f.group)
		})
	}
	if usable == nil {
		t.Skip("no freezer of cgroups can be used (root, /sys/fs/cgroup)")
	}
	return usable
}

// Add puts a process into the cgroup.
func (f *Freezer) Add(t *testing.T, pid int) {
	t.Helper()
	f.write(t, "cgroup.procs", fmt.Sprint(pid))
}

// Freeze freezes the cgroup's processes until Thaw, or until the test ends.
func (f *Freezer) Freeze(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { f.Thaw(t) }) // a frozen process does not end
	for try, deadline := 0, time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if try++; try%100 == 1 { // the kernel does not try again by itself if a thread could not be frozen
			f.write(t, f.file, f.freeze)
		}
		state, err := os.ReadFile(filepath.Join(f.group, f.stateFile))
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%s: %q, %v", f.stateFile, state, err)
		}
		if strings.Contains(string(state), f.frozenState) {
			return
		}
	}
}

// Thaw lets the processes go on.
func (f *Freezer) Thaw(t *testing.T) {
	t.Helper()
	f.write(t, f.file, f.thaw)
}

func (f *Freezer) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.group, name), []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}
