package testkube

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Container says which cgroup the kubelet and a container runtime make for a container.
type Container struct {
	PodUID string // of a static pod: its hash
	ID     string // without the runtime, as in "containerd://"

	Runtime   string // "containerd", "crio" or "docker"
	Burstable bool   // quality of service; otherwise guaranteed
	Cgroupfs  bool   // cgroup driver of the kubelet; otherwise systemd
	Version1  bool   // hierarchies of cgroup version 1; otherwise version 2
}

// Path returns the path of the cgroup below the root of its hierarchy, with a slash at its begin.
func (c Container) Path() string {
	if c.Cgroupfs {
		path := "/kubepods"
		if c.Burstable {
			path += "/burstable"
		}
		return path + "/pod" + c.PodUID + "/" + c.ID
	}
	path, slice := "/kubepods.slice", "kubepods"
	if c.Burstable {
		slice += "-burstable"
		path += "/" + slice + ".slice"
	}
	path += "/" + slice + "-pod" + strings.ReplaceAll(c.PodUID, "-", "_") + ".slice/"
	prefix := map[string]string{"containerd": "cri-containerd-", "crio": "crio-", "docker": "docker-"}[c.Runtime]
	return path + prefix + c.ID + ".scope"
}

// Hold puts a process into the cgroup, in all hierarchies of the version that the machine has and that accept it. The cgroup is removed
// when the test ends; the process then moves to the root of the hierarchy, if it still runs. The test is skipped if there is no such hierarchy.
func (c Container) Hold(tb testing.TB, pid int) {
	tb.Helper()
	held := 0
	for _, root := range hierarchies(tb, c.Version1) {
		dir := filepath.Join(root, c.Path())
		made, err := makeAll(dir)
		tb.Cleanup(func() { removeAll(tb, root, made) })
		if err == nil {
			err = join(dir, pid)
		}
		if err != nil {
			tb.Logf("cgroup %s: %v", dir, err)
			continue
		}
		held++
	}
	if held == 0 {
		tb.Skipf("no writable hierarchy of cgroups (version 1: %v); requires root", c.Version1)
	}
}

// hierarchies returns where the hierarchies of a version of cgroups are mounted. Those of version 1 are only the ones in which a new
// cgroup needs no settings.
func hierarchies(tb testing.TB, version1 bool) (roots []string) {
	tb.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		field := strings.Fields(line)
		if len(field) < 4 {
			continue
		}
		options := strings.Split(field[3], ",")
		switch field[2] {
		case "cgroup2":
			if !version1 {
				roots = append(roots, field[1])
			}
		case "cgroup":
			if version1 && !slices.Contains(options, "cpuset") {
				roots = append(roots, field[1])
			}
		}
	}
	return roots
}

// makeAll creates a directory and its parents, and returns those that it has created.
func makeAll(dir string) (made []string, err error) {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if made, err = makeAll(filepath.Dir(dir)); err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return made, err
	}
	return append(made, dir), nil
}

// removeAll removes cgroups that makeAll has made. Those that other tests use meanwhile stay.
func removeAll(tb testing.TB, root string, made []string) {
	for _, dir := range slices.Backward(made) {
		var err error
		for range 100 { // the cgroup of a process that has ended is busy for a moment
			evacuate(dir, root)
			if err = os.Remove(dir); !errors.Is(err, unix.EBUSY) {
				break
			}
			if entries, _ := os.ReadDir(dir); slices.ContainsFunc(entries, fs.DirEntry.IsDir) {
				err = nil // another test's cgroups
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			tb.Error(err)
		}
	}
}

// evacuate moves the processes of a cgroup to the root of its hierarchy.
func evacuate(dir, root string) {
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for _, pid := range strings.Fields(string(text)) {
		_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(pid), 0) // the process may have ended
	}
}

// join puts a process into a cgroup.
func join(dir string, pid int) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}
