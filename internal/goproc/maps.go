package goproc

import (
	"fmt"
	"strconv"
	"strings"
)

// mapping is a line of /proc/PID/maps.
type mapping struct {
	start, end uint64
	perms      string // "r-xp"
	offset     uint64 // in the file
	dev        string // "fd:00"
	inode      uint64 // 0 for memory without a file
	path       string
}

// parseMaps reads /proc/PID/maps.
func parseMaps(b []byte) ([]mapping, error) {
	var maps []mapping
	for line := range strings.Lines(string(b)) {
		m, err := parseMapping(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		maps = append(maps, m)
	}
	return maps, nil
}

func parseMapping(line string) (mapping, error) {
	// address perms offset dev inode, then the path after a run of blanks; the path may hold blanks itself.
	f := strings.SplitN(line, " ", 6)
	if len(f) < 5 {
		return mapping{}, fmt.Errorf("malformed maps line %q", line)
	}
	lo, hi, ok := strings.Cut(f[0], "-")
	if !ok {
		return mapping{}, fmt.Errorf("malformed maps line %q", line)
	}
	m := mapping{perms: f[1], dev: f[3]}
	var err [4]error
	m.start, err[0] = strconv.ParseUint(lo, 16, 64)
	m.end, err[1] = strconv.ParseUint(hi, 16, 64)
	m.offset, err[2] = strconv.ParseUint(f[2], 16, 64)
	m.inode, err[3] = strconv.ParseUint(f[4], 10, 64)
	for _, e := range err {
		if e != nil {
			return mapping{}, fmt.Errorf("malformed maps line %q: %w", line, e)
		}
	}
	if len(f) == 6 {
		m.path = strings.TrimLeft(f[5], " ")
	}
	return m, nil
}

// exec reports whether the mapping's code can be executed.
func (m mapping) exec() bool { return len(m.perms) > 2 && m.perms[2] == 'x' }

// mappingOf returns the mapping that holds an address.
func mappingOf(maps []mapping, addr uint64) (mapping, bool) {
	for _, m := range maps {
		if m.start <= addr && addr < m.end {
			return m, true
		}
	}
	return mapping{}, false
}
