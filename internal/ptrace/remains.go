package ptrace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
)

// Remains lists what a killed tracer has left in a process, as far as it can be recognized with certainty. The shared
// memory and the changes that it records are not included.
type Remains struct {
	Footholds int        // number of places that contain the code of a foothold
	Files     []int      // file descriptors of shared memory
	Programs  []Interval // mappings made by MapProgram: named, or followed by data that forked children do not inherit
}

// Empty reports whether nothing was left.
func (r Remains) Empty() bool { return r.Footholds == 0 && len(r.Files) == 0 && len(r.Programs) == 0 }

// FindRemains finds what a killed tracer has left in a process, except programs in the interval known. It finds nothing
// while the process is traced, because the current tracer may be using it.
func FindRemains(pid int, known Interval) (Remains, error) {
	s, err := newStopped(pid, Options{})
	if err != nil {
		return Remains{}, err
	}
	defer s.dir.Close()
	if s.tracedBy() != "" {
		return Remains{}, nil
	}
	return s.findRemains(known, func(addr uint64, b []byte) error { return ReadMemory(pid, addr, b) })
}

func (s *Stopped) findRemains(known Interval, read func(addr uint64, b []byte) error) (r Remains, err error) {
	b, err := s.dir.ReadFile(s.live("maps"))
	if err != nil {
		return r, procError(s.pid, err)
	}
	maps, err := procmap.Parse(b)
	if err != nil {
		return r, fmt.Errorf("process %d: %w", s.pid, err)
	}
	footholds, err := s.leftFootholds(maps, read)
	if err != nil {
		return r, err
	}
	r.Footholds = len(footholds)
	if r.Files, err = s.sharedFiles(); err != nil {
		return r, err
	}
	r.Programs, err = s.strayPrograms(maps, known)
	return r, err
}

// Clean removes what FindRemains finds. All threads must be stopped. The error wraps ErrBusy if a thread is executing
// code to be removed.
func (s *Stopped) Clean(known Interval) error {
	return s.Do(func() error {
		maps, err := s.Maps()
		if err != nil {
			return err
		}
		footholds, err := s.leftFootholds(maps, s.Read) // before a call uses one
		if err != nil {
			return err
		}
		for _, f := range footholds {
			if err := s.awaitEmpty(f); err != nil {
				return err
			}
			f.old = s.pristine(maps, f)
			if err := f.leave(s); err != nil {
				return err
			}
		}
		files, err := s.sharedFiles()
		if err != nil {
			return err
		}
		for _, fd := range files {
			if _, err := s.Call(unix.SYS_CLOSE, uint64(fd)); err != nil {
				return s.refusedCall("closing a file in it", err)
			}
		}
		programs, err := s.strayPrograms(maps, known)
		if err != nil {
			return err
		}
		rest, err := s.resting(programs, false)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("process %d: %w: thread %d is in the code to be removed, at %#x", s.pid, ErrBusy, rest[0].TID, rest[0].PC)
		}
		for _, p := range programs {
			if err == nil {
				err = s.Unmap(p.Lo, int(p.Hi-p.Lo))
			}
		}
		return err
	})
}

// leftFootholds returns the places in which a killed tracer has left its code.
func (s *Stopped) leftFootholds(maps []procmap.Mapping, read func(addr uint64, b []byte) error) ([]*foothold, error) {
	var left []*foothold
	err := s.eachRoom(maps, read, func(r room) error {
		mark := make([]byte, footholdMark)
		if err := read(r.lo, mark); err != nil {
			return err
		}
		if bytes.Equal(mark, wayBack[:footholdMark]) {
			const anyThread = -1
			left = append(left, &foothold{at: r.lo, size: int(min(r.size(), footholdMost)), tid: anyThread})
		}
		return nil
	})
	return left, err
}

// sharedFiles returns the file descriptors of shared memory made by makeMemfd.
func (s *Stopped) sharedFiles() ([]int, error) {
	dir, err := s.dir.Open(s.live("fd"))
	if errors.Is(err, unix.EACCES) {
		return s.tryFiles()
	}
	if err != nil {
		return nil, procError(s.pid, err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, procError(s.pid, err)
	}
	var files []int
	for _, name := range names {
		target, err := s.dir.Readlink(s.live("fd/" + name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, procError(s.pid, err)
		}
		if fd, err := strconv.Atoi(name); err == nil && strings.HasPrefix(target, sharedName) {
			files = append(files, fd)
		}
	}
	slices.Sort(files)
	return files, nil
}

// tryFiles is like sharedFiles, for a process whose list of descriptors cannot be read: it tries all possible
// descriptors.
func (s *Stopped) tryFiles() ([]int, error) {
	field, err := readStatusField(s.dir, "status", "FDSize")
	if err != nil {
		return nil, procError(s.pid, err)
	}
	size, err := strconv.Atoi(field)
	if err != nil {
		return nil, fmt.Errorf("process %d: counting its open files: %w", s.pid, err)
	}
	var files []int
	for fd := range size {
		f, err := s.duplicate(fd)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("process %d: its files: %w", s.pid, err)
		}
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		f.Close()
		if err == nil && strings.HasPrefix(name, sharedName) {
			files = append(files, fd)
		}
	}
	return files, nil
}

// strayPrograms returns the mappings made by MapProgram outside of the interval known: code without a file that has the
// name set by prepare, or, if the kernel does not support names, code immediately before data that is zero in forked
// children.
func (s *Stopped) strayPrograms(maps []procmap.Mapping, known Interval) ([]Interval, error) {
	var stray []Interval
	var wiped map[uint64]bool
	for i, m := range maps {
		if !anonymous(m) || m.Perms != "r-xp" || m.Start < known.Hi && known.Lo < m.End {
			continue
		}
		in := Interval{m.Start, m.End}
		var next procmap.Mapping
		if i+1 < len(maps) && maps[i+1].Start == m.End && anonymous(maps[i+1]) && maps[i+1].Perms == "rw-p" {
			next = maps[i+1]
		}
		if next.Start != 0 && wiped == nil {
			var err error
			if wiped, err = s.wipedOnFork(); err != nil {
				return nil, err
			}
		}
		if next.Start != 0 && (wiped[next.Start] || next.Path == anonymousName) {
			in.Hi = next.End
		} else if m.Path != anonymousName {
			continue
		}
		stray = append(stray, in)
	}
	return stray, nil
}

// wipedOnFork returns the start addresses of the mappings that are zero in forked children.
func (s *Stopped) wipedOnFork() (map[uint64]bool, error) {
	b, err := s.dir.ReadFile(s.live("smaps"))
	if err != nil {
		return nil, procError(s.pid, err)
	}
	wiped := map[uint64]bool{}
	at := uint64(0)
	for line := range bytes.Lines(b) {
		first, flags, _ := strings.Cut(string(line), " ")
		if lo, _, ok := strings.Cut(first, "-"); ok {
			if addr, err := strconv.ParseUint(lo, 16, 64); err == nil {
				at = addr
			}
		}
		if first == "VmFlags:" && slices.Contains(strings.Fields(flags), "wf") {
			wiped[at] = true
		}
	}
	return wiped, nil
}
