package footprint

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// LimitMemory makes the garbage collector work harder rather than let the process take more than some bytes. What it
// returns restores the limit that there was before.
func LimitMemory(bytes int64) (restore func()) {
	before := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(before, bytes))
	return func() { debug.SetMemoryLimit(before) }
}

// unknownMemory is what Available returns when nothing tells.
const unknownMemory = 4 << 30

// Available returns how many bytes of memory this process can take: what the machine has available, the limits of its
// control groups and its limit of address space, whichever is least.
func Available() int64 { return available("/") }

// available reads the files below root.
func available(root string) int64 {
	n := meminfo(filepath.Join(root, "proc/meminfo"))
	cgroups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err == nil {
		n = min(n, cgroupMemory(root, string(cgroups)))
	}
	var as syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &as) == nil && as.Cur < uint64(n) {
		n = int64(as.Cur)
	}
	return n
}

// meminfo returns MemAvailable.
func meminfo(path string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return unknownMemory
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "MemAvailable" {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err == nil {
			return n << 10
		}
	}
	return unknownMemory
}

// cgroupMemory returns the least limit of the process's control group and those above it, less what they use; version 2
// has one line, "0::PATH".
func cgroupMemory(root, cgroups string) int64 {
	least := int64(math.MaxInt64)
	for line := range strings.Lines(cgroups) {
		dir, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !unified {
			continue
		}
		for dir = filepath.Join("/", dir); ; dir = filepath.Dir(dir) {
			at := filepath.Join(root, "sys/fs/cgroup", dir)
			limit, limited := readNumber(filepath.Join(at, "memory.max"))
			if limited {
				used, _ := readNumber(filepath.Join(at, "memory.current"))
				least = min(least, max(limit-used, 0))
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}
