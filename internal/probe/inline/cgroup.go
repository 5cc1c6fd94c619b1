package inline

import (
	"context"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/ptrace"
)

// memoryNeed is the memory that an installation usually adds to the target: patched pages of code,
// stubs, probes, and the probes' data.
const memoryNeed = 2 << 20

// cgroupRoot is where cgroups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// Check returns the reason why an engine would refuse a process: its memory cgroup is full, or its seccomp filter does not let
// it map memory. It returns nil if neither holds. A process with a filter is stopped for some microseconds.
func Check(ctx context.Context, pid int) error {
	if err := checkMemory(pid, cgroupRoot); err != nil {
		return err
	}
	return ptrace.CheckCalls(ctx, pid)
}

// checkMemory refuses a process if memoryNeed might make its memory cgroup run out of memory. A cgroup whose
// files are not visible here is ignored.
func checkMemory(pid int, root string) error {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil // no cgroups, or the process has exited, which the next step detects
	}
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		v1 := strings.Contains(","+f[1]+",", ",memory,")
		if !v1 && f[1] != "" {
			continue
		}
		top := root
		if v1 {
			top = filepath.Join(root, "memory")
		}
		for name := path.Clean("/" + f[2]); ; name = path.Dir(name) {
			if room := memoryRoom(filepath.Join(top, name), v1); room < memoryNeed {
				return fmt.Errorf("process %d: %w: its memory cgroup %s has %d KiB free, and engine inline may require %d KiB: raise the limit, or use --engine uprobe",
					pid, ptrace.ErrUnsupported, name, max(room, 0)>>10, memoryNeed>>10)
			}
			if name == "/" {
				break
			}
		}
	}
	return nil
}

// memoryRoom returns how many bytes a cgroup can use before the kernel must kill a process: the rest of its limit, plus
// its page cache.
func memoryRoom(dir string, v1 bool) int64 {
	limitFile, usageFile, prefix := "memory.max", "memory.current", ""
	if v1 {
		limitFile, usageFile, prefix = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
	}
	number := func(name string) (int64, bool) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // "max" is no number
		return n, err == nil
	}
	limit, limited := number(limitFile)
	used, known := number(usageFile)
	if !limited || !known {
		return math.MaxInt64
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return math.MaxInt64
	}
	for line := range strings.Lines(string(stat)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == prefix+"inactive_file" || name == prefix+"active_file" {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				used -= n
			}
		}
	}
	return limit - max(used, 0) // the usage is read before the page cache, which may have grown meanwhile
}
