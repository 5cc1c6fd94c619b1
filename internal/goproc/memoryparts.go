package goproc

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/procmap"
)

// sorter sums the resident memory of mappings by what they belong to.
type sorter struct {
	arenas     []uint64 // start addresses, sorted
	arenaBytes uint64
	exe        string // path of the executable

	sum     event.MemoryParts
	named   bool   // the kernel names the mappings of the runtime
	exeEnd  uint64 // end of the last mapping of the executable
	largest []event.MemoryMapping
	plain   uint64 // resident memory of unnamed anonymous mappings in sum.Other
}

// maxLargest bounds the list of the largest mappings.
const maxLargest = 8

// goName is how the kernel names the mappings that the runtime names (runtime.setVMAName, Go 1.25).
const goName = "[anon: Go: "

// add adds a mapping.
func (s *sorter) add(m procmap.Mapping, rss uint64) {
	path := strings.TrimSuffix(m.Path, " (deleted)")
	part := &s.sum.Other
	switch {
	case s.inArena(m.Start):
		s.sum.Arenas += rss
		return
	case strings.HasPrefix(m.Path, goName):
		s.named = true
		s.sum.Metadata += rss
		return
	case m.Inode != 0 && path == s.exe, m.Path == "" && m.Start == s.exeEnd && m.Start != 0:
		part, s.exeEnd = &s.sum.Executable, m.End
	case isShared(m, path):
		part = &s.sum.Shared
	case m.Inode != 0:
		part = &s.sum.Files
	case m.Path == "[heap]":
		part = &s.sum.CHeap
	case m.Path == "":
		s.plain += rss
	}
	*part += rss
	if rss > 0 {
		s.note(event.MemoryMapping{Start: m.Start, End: m.End, Name: m.Path, RSS: rss})
	}
}

// isShared reports whether a mapping is shared memory: of a memfd, of System V, of POSIX, or shared and anonymous.
func isShared(m procmap.Mapping, path string) bool {
	for _, prefix := range []string{"/memfd:", "/SYSV", "/dev/shm/", "[anon_shmem:"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return path == "/dev/zero" && !m.Private()
}

// inArena reports whether an address belongs to the Go heap's arenas.
func (s *sorter) inArena(addr uint64) bool {
	i, found := slices.BinarySearch(s.arenas, addr)
	return found || i > 0 && addr-s.arenas[i-1] < s.arenaBytes
}

// note keeps a mapping if it is one of the largest.
func (s *sorter) note(m event.MemoryMapping) {
	at, _ := slices.BinarySearchFunc(s.largest, m, func(a, b event.MemoryMapping) int { return cmp.Compare(b.RSS, a.RSS) })
	if at < maxLargest {
		s.largest = slices.Insert(s.largest, at, m)
		s.largest = s.largest[:min(len(s.largest), maxLargest)]
	}
}

// parts returns the sums. metadata is the memory that the runtime obtained outside of the arenas.
func (s *sorter) parts(metadata uint64) *event.MemoryParts {
	p := s.sum
	if !s.named {
		p.MetadataBound = true
		p.Metadata = min(metadata, s.plain)
		p.Other -= p.Metadata
	}
	p.Largest = s.largest
	return &p
}

// endOfFile returns err unless it is the end of the file.
func endOfFile(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
