// Package testmount mounts file systems for tests, which then do not depend on what the machine has mounted.
package testmount

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// New mounts a new file system of a kind, such as "tmpfs" or "bpf", until the test ends, and returns its directory. The options are those
// of the mount command. The test is skipped if this process may not mount, which root may.
func New(t testing.TB, kind, options string) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("loupe-test", dir, kind, 0, options)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("mounting a file system requires root: %v", err)
	}
	if err != nil {
		t.Fatalf("mounting %s at %s: %v", kind, dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	return dir
}
