package ptrace

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Began returns when a process began, in the kernel's ticks since the machine was started: with its number it tells one
// process from all others. 0 when there is none, or it has ended and waits only for its parent to take note.
func Began(pid int) uint64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	s := string(b)
	const startTime = 19 // the 22nd field, counted from the third
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
