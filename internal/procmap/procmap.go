// Package procmap reads the address space of a process from /proc/PID/maps.
//
// The central type is [Mapping], one line of that file. It is a snapshot: the process may have changed the mapping since.
package procmap

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Mapping is a line of /proc/PID/maps.
type Mapping struct {
	Start, End uint64
	Perms      string // "r-xp"
	Offset     uint64 // in the file
	Dev        string // "fd:00"
	Inode      uint64 // 0 for memory without a file
	Path       string
}

// Read reads the mappings of a process. An error of the file system is returned as it is.
func Read(pid int) ([]Mapping, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	return Parse(b)
}

// Parse reads the contents of /proc/PID/maps.
func Parse(b []byte) ([]Mapping, error) {
	var maps []Mapping
	for line := range strings.Lines(string(b)) {
		m, err := parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		maps = append(maps, m)
	}
	return maps, nil
}

func parseLine(line string) (Mapping, error) {
	// address perms offset dev inode, then the path after a run of blanks; the path may hold blanks itself.
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return Mapping{}, fmt.Errorf("malformed maps line %q", line)
	}
	lo, hi, ok := strings.Cut(f[0], "-")
	if !ok {
		return Mapping{}, fmt.Errorf("malformed maps line %q", line)
	}
	m := Mapping{Perms: f[1], Dev: f[3]}
	var err [4]error
	m.Start, err[0] = strconv.ParseUint(lo, 16, 64)
	m.End, err[1] = strconv.ParseUint(hi, 16, 64)
	m.Offset, err[2] = strconv.ParseUint(f[2], 16, 64)
	m.Inode, err[3] = strconv.ParseUint(f[4], 10, 64)
	for _, e := range err {
		if e != nil {
			return Mapping{}, fmt.Errorf("malformed maps line %q: %w", line, e)
		}
	}
	if len(f) == 6 {
		m.Path = strings.TrimLeft(f[5], " ")
	}
	return m, nil
}

// Exec reports whether the mapping's code can be executed.
func (m Mapping) Exec() bool { return len(m.Perms) > 2 && m.Perms[2] == 'x' }

// Private reports whether what is written to the mapping stays with the process.
func (m Mapping) Private() bool { return len(m.Perms) > 3 && m.Perms[3] == 'p' }

// Of returns the mapping that holds an address.
func Of(maps []Mapping, addr uint64) (Mapping, bool) {
	for _, m := range maps {
		if m.Start <= addr && addr < m.End {
			return m, true
		}
	}
	return Mapping{}, false
}
