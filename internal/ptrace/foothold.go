package ptrace

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
)

// A foothold is the place where a thread of the process makes system calls for this process, and from which it restores
// its state if this process is killed: an unused part of an executable page. It contains, in this order, the code, a
// short text for arguments of calls, the thread's signal frame, and its floating-point state.
type foothold struct {
	at   uint64
	size int
	old  []byte // what was there
	tid  int    // the thread whose frame is there
}

const (
	footholdText  = 16 // sizes of the code and of the text, in bytes
	footholdMark  = 8  // size of the part of the code by which a foothold is recognized
	footholdFrame = 2 * footholdText
	footholdLeast = footholdFrame + frameSize
	footholdMost  = 16 << 10
	maxFPState    = 12 << 10 // more than any processor has today
)

// text returns the address of the text for arguments of calls.
func (f *foothold) text() uint64 { return f.at + footholdText }

// enter finds the place and saves its contents.
func (s *Stopped) enter() (*foothold, error) {
	if s.foothold != nil {
		return s.foothold, nil
	}
	maps, err := s.Maps()
	if err != nil {
		return nil, err
	}
	room, ok, err := s.findRoom(maps)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("process %d: %w: no unused bytes in its executable pages", s.pid, ErrUnsupported)
	}
	f := &foothold{at: room.lo, size: int(min(room.hi-room.lo, footholdMost))}
	f.old = make([]byte, f.size)
	if err := s.Read(f.at, f.old); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(f.old, wayBack[:footholdMark]) {
		if err := s.awaitEmpty(f); err != nil {
			return nil, err
		}
		f.old = s.pristine(maps, f)
	}
	s.foothold = f
	return f, nil
}

// awaitEmpty verifies that no thread still executes code at a place that a killed tracer has left.
func (s *Stopped) awaitEmpty(f *foothold) error {
	if s.opt.One {
		s.opt.One = false
		if err := s.stopAll(context.Background()); err != nil {
			return err
		}
	}
	rest, err := s.resting([]Interval{{f.at, f.at + uint64(len(wayBack))}}, true)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("process %d: %w: thread %d returns from code of a killed tracer", s.pid, ErrBusy, rest[0].TID)
	}
	return err
}

// leave restores the original contents. It restores the beginning last, because the next tracer recognizes the remains
// of a killed one by it.
func (f *foothold) leave(s *Stopped) error {
	if f.tid == 0 {
		return nil
	}
	if err := s.Write(f.at+footholdMark, f.old[footholdMark:]); err != nil {
		return err
	}
	return s.Write(f.at, f.old[:footholdMark])
}

// pristine returns the contents of a foothold's place in the mapped file. If the file cannot be read it returns zeros,
// because nothing depends on these bytes.
func (s *Stopped) pristine(maps []procmap.Mapping, f *foothold) []byte {
	b := make([]byte, f.size)
	m, _ := procmap.Of(maps, f.at)
	for _, path := range []string{s.live("exe"), "root" + m.Path} { // CAP_SYS_PTRACE opens the first in any directory
		file, err := os.Open(fmt.Sprintf("/proc/%d/%s", s.pid, path))
		if err != nil {
			continue
		}
		defer file.Close()
		var st unix.Stat_t
		if unix.Fstat(int(file.Fd()), &st) == nil && st.Ino == m.Inode {
			_, _ = file.ReadAt(b, int64(m.Offset+f.at-m.Start)) // after the end of the file there are zeros
			break
		}
	}
	return b
}

// prepare writes the code and the frame for a thread.
func (f *foothold) prepare(s *Stopped, t *Thread) error {
	if f.tid == t.TID {
		return nil
	}
	at := f.at + footholdFrame
	var fp []byte
	fpAt := align(at+frameSize, fpAlign)
	state := make([]byte, maxFPState)
	n, err := regset(unix.PTRACE_GETREGSET, t.TID, fpSet, unsafe.Pointer(&state[0]), len(state))
	if err == nil {
		fp = frameFP(state[:n], int(f.at)+f.size-int(fpAt))
	}
	if fp == nil {
		if frameNeedFP {
			return fmt.Errorf("process %d: %w: too few unused bytes in its executable pages", s.pid, ErrUnsupported)
		}
		// During a system call nothing depends on this state, by the calling conventions of Go and C.
		if !t.Regs.inCall() {
			return fmt.Errorf("process %d: %w: no room to save the vector registers of thread %d", s.pid, ErrBusy, t.TID)
		}
		fpAt = 0
	}
	b := make([]byte, footholdFrame)
	copy(b, wayBack)
	copy(b[footholdText:], Name)
	b = append(b, buildFrame(at, &t.Regs, t.mask, fpAt)...)
	if fp != nil {
		b = append(b, make([]byte, fpAt-f.at-uint64(len(b)))...)
		b = append(b, fp...)
	}
	f.tid = t.TID // everything written from here on must be restored
	return s.Write(f.at, b)
}

// room is a range of addresses.
type room struct{ lo, hi uint64 }

func (r room) size() uint64 {
	if r.hi < r.lo {
		return 0
	}
	return r.hi - r.lo
}

func align(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }

// findRoom returns the largest unused part of an executable page.
func (s *Stopped) findRoom(maps []procmap.Mapping) (best room, found bool, err error) {
	err = s.eachRoom(maps, s.Read, func(r room) error {
		if r.size() > best.size() {
			best = r
		}
		return nil
	})
	return best, best.size() > 0, err
}

// eachRoom calls f for each unused part of an executable page that is large enough for a foothold.
func (s *Stopped) eachRoom(maps []procmap.Mapping, read func(addr uint64, b []byte) error, f func(room) error) error {
	page := uint64(os.Getpagesize())
	for i, m := range maps {
		if m.Offset != 0 || !m.Private() || m.Inode == 0 && m.Path != "[vdso]" {
			continue
		}
		rooms, err := roomsOf(m, read, page)
		if err != nil {
			return err
		}
		for _, r := range rooms {
			r.lo = align(r.lo, frameAlign)
			if !unusedCode(maps[i:], m, r) || r.size() < footholdLeast {
				continue
			}
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// unusedCode reports whether r is in an executable mapping of the same file as m.
func unusedCode(maps []procmap.Mapping, m procmap.Mapping, r room) bool {
	in, ok := procmap.Of(maps, r.lo)
	return ok && in.Exec() && in.Private() && in.Inode == m.Inode && in.Dev == m.Dev && in.Path == m.Path && r.hi <= in.End
}

const (
	elfHeader  = 64
	progHeader = 56
	maxHeaders = 64
)

// roomsOf returns the ranges for which a file has no contents; its beginning is mapped at m. They are after the end of
// each segment with code, after the last section header of the vDSO, and, in programs linked by the Go linker, between
// the headers and the notes, which end 4096 bytes after the start, where the code begins (elfreserve in cmd/link).
func roomsOf(m procmap.Mapping, read func(addr uint64, b []byte) error, page uint64) ([]room, error) {
	head := make([]byte, page)
	if err := read(m.Start, head); errors.Is(err, unix.EFAULT) { // the file was truncated
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(head, []byte(elf.ELFMAG)) || head[elf.EI_CLASS] != byte(elf.ELFCLASS64) {
		return nil, nil
	}
	le := binary.LittleEndian
	if m.Inode == 0 {
		end := le.Uint64(head[40:]) + uint64(le.Uint16(head[58:]))*uint64(le.Uint16(head[60:]))
		if end >= m.End-m.Start || end < elfHeader {
			return nil, nil
		}
		return []room{{m.Start + end, m.End}}, nil
	}
	n, size := int(le.Uint16(head[56:])), int(le.Uint16(head[54:]))
	if le.Uint64(head[32:]) != elfHeader || size != progHeader || n == 0 || n > maxHeaders {
		return nil, nil
	}
	var progs []elf.Prog64
	for i := range n {
		var p elf.Prog64
		if binary.Read(bytes.NewReader(head[elfHeader+i*progHeader:]), le, &p) != nil {
			return nil, nil
		}
		progs = append(progs, p)
	}
	return roomsBetween(m.Start, head, progs, page), nil
}

func roomsBetween(start uint64, head []byte, progs []elf.Prog64, page uint64) []room {
	var rooms []room
	le := binary.LittleEndian
	gap := room{elfHeader + uint64(len(progs))*progHeader, uint64(len(head))}
	if sections := le.Uint64(head[40:]); sections < gap.hi { // the Go linker puts these headers there as well
		gap.lo = max(gap.lo, sections+uint64(le.Uint16(head[58:]))*uint64(le.Uint16(head[60:])))
	}
	var bias uint64
	static, based := true, false
	for _, p := range progs {
		switch elf.ProgType(p.Type) {
		case elf.PT_LOAD:
			if !based {
				bias, based = start-p.Vaddr&^(page-1), true
			}
			if elf.ProgFlag(p.Flags)&elf.PF_X != 0 && p.Filesz == p.Memsz {
				end := bias + p.Vaddr + p.Filesz
				rooms = append(rooms, room{end, align(end, page)})
			}
		case elf.PT_DYNAMIC, elf.PT_INTERP:
			static = false
		case elf.PT_NOTE:
			gap.hi = min(gap.hi, p.Off)
		}
	}
	if gap.lo = align(gap.lo, frameAlign); static && gap.size() > 0 {
		unused := head[gap.lo:gap.hi]
		if bytes.HasPrefix(unused, wayBack[:footholdMark]) || len(bytes.Trim(unused, "\x00")) == 0 {
			rooms = append(rooms, room{start + gap.lo, start + gap.hi})
		}
	}
	return rooms
}

// checkSupported returns an error for a process whose system calls are not those of this architecture.
func (s *Stopped) checkSupported() error {
	if s.supported == nil || !errors.Is(s.supported, errUnknown) {
		return s.supported
	}
	s.supported = s.examine()
	return s.supported
}

func (s *Stopped) examine() error {
	// The link leads out of the directory, which os.Root does not follow.
	f, err := os.Open(fmt.Sprintf("/proc/%d/%s", s.pid, s.live("exe")))
	if err != nil {
		return procError(s.pid, err)
	}
	defer f.Close()
	var head [20]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return fmt.Errorf("process %d: reading its executable: %w", s.pid, err)
	}
	machine := binary.LittleEndian.Uint16(head[18:])
	if head[elf.EI_CLASS] != byte(elf.ELFCLASS64) || machine != elfMachine {
		return fmt.Errorf("process %d: %w: its executable is for another architecture (%s, %s)", s.pid, ErrUnsupported,
			elf.Machine(machine), elf.Class(head[elf.EI_CLASS]))
	}
	return nil
}
