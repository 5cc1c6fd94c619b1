package ptrace

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/procmap"
)

// Name is the name of mappings in /proc/PID/maps: "/memfd:loupe (deleted)" for shared memory, and "[anon:loupe]" for
// other memory if the kernel supports names for it.
const Name = "loupe"

// sharedName is the prefix of the name of shared memory in /proc/PID/maps and in the links of /proc/PID/fd.
const sharedName = "/memfd:" + Name + " "

// anonymousName is the name of other memory in /proc/PID/maps, if the kernel supports names for it.
const anonymousName = "[anon:" + Name + "]"

// A Window is a range of addresses for memory: those that a jump or a load reaches from the code that uses the memory.
type Window struct{ Lo, Hi uint64 }

// MapProgram maps readable and executable memory, which Write fills, immediately followed by readable and writable
// memory that is private to the process: in a forked child it contains zeros (Linux 4.14). The sizes are rounded up to
// whole pages; data may be 0. The address must be one that Gap returned. The error wraps ErrBusy if the process has
// mapped something there since.
func (s *Stopped) MapProgram(addr uint64, code, data int) error {
	page := uint64(os.Getpagesize())
	codeLength, dataLength := align(uint64(code), page), align(uint64(data), page)
	return s.Do(func() error {
		err := s.mapAt(addr, codeLength+dataLength, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, noFD)
		if err != nil {
			return err
		}
		if err = s.prepare(addr, codeLength, false); err == nil && data > 0 {
			err = s.mapData(addr+codeLength, dataLength)
		}
		if err != nil {
			return both(err, s.Unmap(addr, int(codeLength+dataLength)))
		}
		return nil
	})
}

// MapPrivate maps readable and writable memory at an address that the kernel chooses, and returns that. Forked children have a copy.
func (s *Stopped) MapPrivate(size int) (uint64, error) {
	addr, err := s.Call(unix.SYS_MMAP, 0, align(uint64(size), uint64(os.Getpagesize())), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE, noFD, 0)
	if err != nil {
		return 0, s.refusedCall("mapping memory in it", err)
	}
	return addr, nil
}

// HasProgram reports whether the address has the mappings that MapProgram makes, whether made by this process or by one
// that was killed. size is the total size of code and data.
func (s *Stopped) HasProgram(addr uint64, code, size int) (bool, error) {
	maps, err := s.Maps()
	if err != nil {
		return false, err
	}
	page := uint64(os.Getpagesize())
	data, end := addr+align(uint64(code), page), addr+align(uint64(size), page)
	at := addr
	for _, m := range maps {
		if at == end || m.End <= addr {
			continue
		}
		perms := "rw-p"
		if at < data { // the whole range, until data is mapped over the rest
			perms = "r-xp"
		}
		if m.Start != at || !anonymous(m) || m.Perms != perms {
			return false, nil
		}
		at = min(m.End, end)
	}
	return at == end, nil
}

// anonymous reports whether a mapping has no file, and either no name or the name that prepare sets.
func anonymous(m procmap.Mapping) bool {
	return m.Inode == 0 && (m.Path == "" || m.Path == anonymousName)
}

// mapData maps memory for data over other memory.
func (s *Stopped) mapData(addr, length uint64) error {
	_, err := s.Call(unix.SYS_MMAP, addr, length, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED, noFD, 0)
	if err != nil {
		return s.refusedCall("mapping memory in it", err)
	}
	return s.prepare(addr, length, true)
}

// prepare sets the name of a mapping, and makes it zero in forked children.
func (s *Stopped) prepare(addr, length uint64, wipe bool) error {
	// Names are only informative. Most distribution kernels support them.
	_, err := s.Call(unix.SYS_PRCTL, unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, addr, length, s.foothold.text())
	if wipe && !errors.Is(err, ErrExited) {
		_, err = s.Call(unix.SYS_MADVISE, addr, length, unix.MADV_WIPEONFORK)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return nil // not supported by the kernel or by a filter
	}
	return err
}

const noFD = ^uint64(0)

// Gap returns the address of size free bytes in a window that do not overlap the intervals in taken, which are about to
// be mapped.
func (s *Stopped) Gap(in Window, size int, taken ...Interval) (uint64, error) {
	maps, err := s.Maps()
	if err != nil {
		return 0, err
	}
	rooms := []room{s.brkRange(maps)}
	for _, t := range taken {
		rooms = append(rooms, room{t.Lo, t.Hi})
	}
	page := uint64(os.Getpagesize())
	length := align(uint64(size), page)
	addr, ok := findGap(maps, in, length, page, rooms...)
	if !ok {
		return 0, fmt.Errorf("process %d: %w: no %d KiB of free addresses between %#x and %#x", s.pid, ErrUnsupported, length>>10,
			in.Lo, in.Hi)
	}
	return addr, nil
}

// mapAt maps memory at a free address.
func (s *Stopped) mapAt(addr, length uint64, prot, flags int, fd uint64) error {
	got, err := s.Call(unix.SYS_MMAP, addr, length, uint64(prot), uint64(flags|unix.MAP_FIXED_NOREPLACE), fd, 0)
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("process %d: %w: it has just mapped memory at %#x", s.pid, ErrBusy, addr)
	}
	if err != nil {
		what := "memory"
		if prot&unix.PROT_EXEC != 0 {
			what = "memory for code"
		}
		return s.refusedCall("mapping "+what+" in it", err)
	}
	if got != addr { // a kernel before 4.17 treats the address as a hint
		return both(fmt.Errorf("process %d: %w: the kernel mapped memory at %#x instead of %#x", s.pid, ErrUnsupported, got, addr),
			s.Unmap(got, int(length)))
	}
	return nil
}

// refusedCall converts the error of a system call in the process to an error of this package.
func (s *Stopped) refusedCall(step string, err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err // it says what it is
	}
	if errno == unix.EPERM || errno == unix.EACCES || errno == unix.ENOSYS {
		return fmt.Errorf("process %d: %s: %w: %w", s.pid, step, ErrPermission, err)
	}
	switch errno {
	case unix.EMFILE:
		err = fmt.Errorf("%w: its limit of open files (RLIMIT_NOFILE) is reached", err)
	case unix.ENOMEM:
		err = fmt.Errorf("%w: its limit of address space (RLIMIT_AS) or of mappings (vm.max_map_count) is reached", err)
	}
	return fmt.Errorf("process %d: %s: %w", s.pid, step, err)
}

// Unmap removes a mapping.
func (s *Stopped) Unmap(addr uint64, size int) error {
	if _, err := s.Call(unix.SYS_MUNMAP, addr, align(uint64(size), uint64(os.Getpagesize()))); err != nil {
		return s.refusedCall(fmt.Sprintf("unmapping %#x", addr), err)
	}
	return nil
}

const (
	brkReserve   = 64 << 20 // size kept free for a heap that grows with brk
	stackReserve = 16 << 20 // size kept free for the stack of the first thread and the gap that the kernel keeps below it
	lowestAddr   = 64 << 10 // vm.mmap_min_addr
)

// brkRange returns the range into which the brk heap may grow.
func (s *Stopped) brkRange(maps []procmap.Mapping) room {
	const startBrk = 44 // field 47 of /proc/PID/stat; the first of these is field 3
	var r room
	if f := statFields(s.dir, s.pid); len(f) > startBrk {
		if lo, err := strconv.ParseUint(f[startBrk], 10, 64); err == nil && lo != 0 {
			r = room{lo, lo + brkReserve}
		}
	}
	for _, m := range maps {
		if m.Path == "[heap]" {
			r.lo, r.hi = min(m.Start, r.lo), max(m.End+brkReserve, r.hi)
		}
	}
	return r
}

// findGap returns the address of size free bytes in a window that do not overlap taken, as close to its middle as
// possible. There is a free page on both sides, so that the kernel does not merge the mapping with another one.
func findGap(maps []procmap.Mapping, in Window, size, page uint64, taken ...room) (uint64, bool) {
	for _, m := range maps {
		r := room{m.Start, m.End}
		if m.Path == "[stack]" && r.lo > stackReserve {
			r.lo -= stackReserve
		}
		taken = append(taken, r)
	}
	slices.SortFunc(taken, func(a, b room) int {
		switch {
		case a.lo < b.lo:
			return -1
		case a.lo > b.lo:
			return 1
		}
		return 0
	})
	taken = append(taken, room{in.Hi, ^uint64(0)})
	middle := in.Lo + (in.Hi-in.Lo)/2
	best, found := uint64(0), false
	distance := func(a uint64) uint64 { return max(a, middle) - min(a, middle) }
	end := uint64(lowestAddr)
	for _, t := range taken {
		lo, hi := align(max(end, in.Lo), page)+page, min(t.lo, in.Hi)&^(page-1)
		end = max(end, t.hi)
		if hi < page || hi-page < size || hi-page-size < lo {
			continue
		}
		at := min(max(middle&^(page-1), lo), hi-page-size)
		if !found || distance(at) < distance(best) {
			best, found = at, true
		}
	}
	return best, found
}

// Occupied returns the address at which a process has shared memory of this package, whichever process it is shared
// with. ok is false if it has none.
func Occupied(maps []procmap.Mapping) (addr uint64, ok bool) {
	for _, m := range maps {
		if strings.HasPrefix(m.Path, sharedName) {
			return m.Start, true
		}
	}
	return 0, false
}

// OccupiedBy is like Occupied, for a process that is not stopped.
func OccupiedBy(pid int) (addr uint64, ok bool, err error) {
	maps, err := procmap.Read(pid)
	if err != nil {
		return 0, false, procError(pid, err)
	}
	addr, ok = Occupied(maps)
	return addr, ok, nil
}
