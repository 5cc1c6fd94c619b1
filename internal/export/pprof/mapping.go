package pprof

import (
	"fmt"
	"strings"
)

// MappingAt returns the mapping that holds an address, from the contents of /proc/PID/maps; zero when there is none.
func MappingAt(maps string, addr uint64) Mapping {
	for line := range strings.Lines(maps) {
		// start-end perms offset dev inode path; a path may hold blanks
		var m Mapping
		var perms string
		n, err := fmt.Sscanf(line, "%x-%x %s %x", &m.Start, &m.End, &perms, &m.Offset)
		if n != 4 || err != nil || addr < m.Start || addr >= m.End {
			continue
		}
		if i := strings.IndexByte(line, '/'); i >= 0 {
			m.File = strings.TrimSuffix(strings.TrimSuffix(line[i:], "\n"), " (deleted)")
		}
		return m
	}
	return Mapping{}
}
