package goproc

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// cgroupMemory returns the accounting of the memory cgroup of the process, or nil if it cannot be read.
func (p *Process) cgroupMemory() *event.CGroupMemory {
	groups, err := p.dir.read("cgroup")
	if err != nil {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return readCGroup(string(groups), string(mounts), os.ReadFile)
}

// cgroupFiles are the names of the files of a version of cgroups.
type cgroupFiles struct{ current, max string }

var cgroupVersions = map[string]cgroupFiles{
	"cgroup2": {"memory.current", "memory.max"},
	"cgroup":  {"memory.usage_in_bytes", "memory.limit_in_bytes"},
}

// readCGroup reads the memory cgroup of a process, given its /proc/PID/cgroup and the mounts of this process.
func readCGroup(groups, mounts string, read func(string) ([]byte, error)) *event.CGroupMemory {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(f) != 3 {
			continue
		}
		kind := "cgroup"
		if f[0] == "0" && f[1] == "" {
			kind = "cgroup2"
		} else if !slices.Contains(strings.Split(f[1], ","), "memory") {
			continue
		}
		top, dir, ok := cgroupDir(mounts, kind, f[2])
		if !ok {
			continue
		}
		files := cgroupVersions[kind]
		current, ok := readSize(read, filepath.Join(dir, files.current))
		if !ok {
			continue // the root of cgroup2, or memory is accounted in another hierarchy
		}
		return &event.CGroupMemory{Path: dir, Current: current, Limit: cgroupLimit(top, dir, files, read)}
	}
	return nil
}

// cgroupDir returns the directory of a cgroup, and the mount point that it is below. ok is false if it is not mounted here.
func cgroupDir(mounts, kind, path string) (top, dir string, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !found || len(f) < 5 || len(g) < 3 || g[0] != kind {
			continue
		}
		if kind == "cgroup" && !slices.Contains(strings.Split(g[2], ","), "memory") {
			continue
		}
		root, point := f[3], f[4]
		below, err := filepath.Rel(root, path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") || strings.Contains(path, "..") {
			continue
		}
		return point, filepath.Join(point, below), true
	}
	return "", "", false
}

// cgroupLimit returns the lowest limit of a cgroup and those above it, up to top.
func cgroupLimit(top, dir string, files cgroupFiles, read func(string) ([]byte, error)) *event.CGroupLimit {
	const unlimited = 1 << 60 // cgroup v1 writes a huge number
	var lowest *event.CGroupLimit
	for {
		if limit, ok := readSize(read, filepath.Join(dir, files.max)); ok && limit < unlimited && (lowest == nil || limit < lowest.Max) {
			current, _ := readSize(read, filepath.Join(dir, files.current))
			lowest = &event.CGroupLimit{Path: dir, Max: limit, Current: current}
		}
		if dir == top || len(dir) <= len(top) {
			return lowest
		}
		dir = filepath.Dir(dir)
	}
}

func readSize(read func(string) ([]byte, error), path string) (uint64, bool) {
	b, err := read(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	return n, err == nil
}
