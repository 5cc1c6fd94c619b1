package ptrace

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Began returns the start time of a process, in clock ticks since boot. Together with the PID it identifies the
// process. The result is 0 if the process does not exist or is a zombie.
func Began(pid int) uint64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	s := string(b)
	const startTime = 19 // field 22 of /proc/PID/stat; the first of these is field 3
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) <= startTime || strings.ContainsAny(fields[0], "ZX") {
		return 0
	}
	began, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return 0
	}
	return began
}
