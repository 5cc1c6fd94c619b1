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

// Name is what mappings are called in /proc/PID/maps: "/memfd:loupe (deleted)" what is shared, and "[anon:loupe]" what
// is not, where the kernel can name that.
const Name = "loupe"

// sharedName is how the name of shared memory begins in /proc/PID/maps and in the links of /proc/PID/fd.
const sharedName = "/memfd:" + Name + " "

// anonymousName is the name of other memory in /proc/PID/maps, where the kernel can name that.
const anonymousName = "[anon:" + Name + "]"

// Window is a range of addresses in which memory is wanted: what a jump or a load reaches from the code that uses it.
type Window struct{ Lo, Hi uint64 }

// MapProgram maps memory that can be read and executed, which Write fills, and right behind it memory that can be read and
// written, which is the process's own: one that forks leaves it to the child filled with zeros (Linux 4.14). The sizes are
// rounded up to whole pages; data may be 0. The address is one that Gap has returned: the error wraps ErrBusy when the
// process has mapped something there since.
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

// HasProgram reports whether what MapProgram maps at an address is there: mapped by this process, or by one that was
// killed. size is that of code and data.
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
		if at < data { // all of it, until data are mapped over the rest
			perms = "r-xp"
		}
		if m.Start != at || !anonymous(m) || m.Perms != perms {
			return false, nil
		}
		at = min(m.End, end)
	}
	return at == end, nil
}

// anonymous reports whether a mapping is one of no file, with the name that prepare gives or none.
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

// prepare gives a mapping its name, and has a forked child find it zero.
func (s *Stopped) prepare(addr, length uint64, wipe bool) error {
	// Names are for people: most kernels of distributions have them, none needs them.
	_, err := s.Call(unix.SYS_PRCTL, unix.PR_SET_VMA, unix.PR_SET_VMA_ANON_NAME, addr, length, s.foothold.text())
	if wipe && !errors.Is(err, ErrExited) {
		_, err = s.Call(unix.SYS_MADVISE, addr, length, unix.MADV_WIPEONFORK)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		return nil // unknown to the kernel, or to a filter
	}
	return err
}

const noFD = ^uint64(0)

// Gap returns the address of size free bytes in a window, apart from what else is about to be mapped.
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

// mapAt maps memory at a free place.
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
	if got != addr { // a kernel before 4.17 takes the address for a hint
		return both(fmt.Errorf("process %d: %w: the kernel mapped memory at %#x instead of %#x", s.pid, ErrUnsupported, got, addr),
			s.Unmap(got, int(length)))
	}
	return nil
}

// refusedCall gives the error of a system call in the process its meaning.
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
	brkReserve   = 64 << 20 // addresses kept free for a heap that grows by brk
	stackReserve = 16 << 20 // likewise for the first thread's stack, and the gap the kernel keeps below
	lowestAddr   = 64 << 10 // vm.mmap_min_addr
)

// brkRange is what the heap of malloc may grow into.
func (s *Stopped) brkRange(maps []procmap.Mapping) room {
	const startBrk = 44 // the 47th field of /proc/PID/stat, counted from the third
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

// findGap returns the address of size free bytes in a window that are not taken, as near to its middle as can be, with a free page on both
// sides so that the kernel merges the mapping with no other.
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

// Occupied returns where a process has shared memory of this package, from this process or from another. ok is false when it
// has none.
func Occupied(maps []procmap.Mapping) (addr uint64, ok bool) {
	for _, m := range maps {
		if strings.HasPrefix(m.Path, sharedName) {
			return m.Start, true
		}
	}
	return 0, false
}

// OccupiedBy is Occupied for a process that is not stopped.
func OccupiedBy(pid int) (addr uint64, ok bool, err error) {
	maps, err := procmap.Read(pid)
	if err != nil {
		return 0, false, procError(pid, err)
	}
	addr, ok = Occupied(maps)
	return addr, ok, nil
}
