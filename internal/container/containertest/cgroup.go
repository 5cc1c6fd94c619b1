// Package containertest makes cgroups for tests, named as container runtimes name them.
package containertest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// NewID returns a container ID that no other container has.
func NewID() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// NewUID returns a pod UID that no other pod has.
func NewUID() string {
	id := NewID()
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:32]}, "-")
}

// A Cgroup is a cgroup without limits.
type Cgroup struct{ dir string }

// New makes a cgroup, and those above it, in the cgroup v2 hierarchy of this machine, which exists in addition to those of v1 if the
// machine uses these. It is removed when the test ends. The processes in it must have ended then. The test is skipped if cgroups
// cannot be made.
func New(tb testing.TB, path string) *Cgroup {
	tb.Helper()
	top := mounted(unix.CGROUP2_SUPER_MAGIC, "/sys/fs/cgroup", "/sys/fs/cgroup/unified")
	if top == "" {
		tb.Skip("requires cgroup v2 at /sys/fs/cgroup or /sys/fs/cgroup/unified")
	}
	return newIn(tb, top, path)
}

// NewV1 is New for a hierarchy of cgroup v1. It returns nil if the machine has none, as most have today.
func NewV1(tb testing.TB, path string) *Cgroup {
	tb.Helper()
	top := mounted(unix.CGROUP_SUPER_MAGIC, "/sys/fs/cgroup/pids", "/sys/fs/cgroup/freezer")
	if top == "" {
		return nil
	}
	return newIn(tb, top, path)
}

// mounted returns the first directory that a file system of a type is mounted at.
func mounted(magic int64, dirs ...string) string {
	var stat unix.Statfs_t
	for _, dir := range dirs {
		if unix.Statfs(dir, &stat) == nil && stat.Type == magic {
			return dir
		}
	}
	return ""
}

func newIn(tb testing.TB, top, path string) *Cgroup {
	tb.Helper()
	dir := filepath.Join(top, path)
	for { // another test may remove a directory that it has shared with this one
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			tb.Skipf("cannot make a cgroup: %v", err)
		}
	}
	tb.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			tb.Errorf("a cgroup remains: %v", err)
		}
		for above := filepath.Dir(dir); above != top && os.Remove(above) == nil; { // until another test uses it
			above = filepath.Dir(above)
		}
	})
	return &Cgroup{dir}
}

// Container makes the cgroup of a container that containerd has started in a pod, with the systemd driver.
func Container(tb testing.TB, podUID, id string) *Cgroup {
	tb.Helper()
	pod := "kubepods-burstable-pod" + strings.ReplaceAll(podUID, "-", "_") + ".slice"
	return New(tb, fmt.Sprintf("kubepods.slice/kubepods-burstable.slice/%s/cri-containerd-%s.scope", pod, id))
}

// Procs returns the path of the file to which a process writes its ID to move itself to the cgroup.
func (c *Cgroup) Procs() string { return filepath.Join(c.dir, "cgroup.procs") }

// Add moves a process to the cgroup.
func (c *Cgroup) Add(tb testing.TB, pid int) {
	tb.Helper()
	if err := os.WriteFile(c.Procs(), []byte(strconv.Itoa(pid)), 0); err != nil {
		tb.Fatal(err)
	}
}
