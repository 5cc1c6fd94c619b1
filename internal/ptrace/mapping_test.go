package ptrace

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func goarch() string { return runtime.GOARCH }

// TestMappings maps and unmaps in a busy program again and again.
func TestMappings(t *testing.T) {
	for _, spec := range []testtarget.Spec{{}, {Cgo: true, PIE: true}} {
		t.Run(spec.String(), func(t *testing.T) {
			target := startMixer(t, spec, 1)
			before := lookForLeftovers(t, target.PID())
			near := window(t, target.PID())
			for i := range 100 {
				s := mustStopFit(t, target.PID(), Options{One: i%2 == 0})
				if err := s.Do(func() error { return mapTwice(s, near, i == 0) }); err != nil {
					t.Fatal(err)
				}
				s.Release()
			}
			checkSum(t, target)
			before.compare(t, lookForLeftovers(t, target.PID()))
		})
	}
}

func mapTwice(s *Stopped, near Window, look bool) error {
	code, err := mapProgram(s, near, 100, 3*4096)
	if err != nil {
		return err
	}
	data := code + uint64(os.Getpagesize())
	shared, err := mapShared(s, near, 1<<20)
	if err != nil {
		return err
	}
	for _, addr := range []uint64{code, data, shared.Addr} {
		if addr < near.Lo || addr > near.Hi {
			return fmt.Errorf("%#x is not between %#x and %#x", addr, near.Lo, near.Hi)
		}
	}
	if err := exchange(s, code, data, shared); err != nil {
		return err
	}
	if look {
		if err := lookAt(s, code, data, shared.Addr); err != nil {
			return err
		}
	}
	for addr, size := range map[uint64]int{code: 100, data: 3 * 4096, shared.Addr: 1 << 20} {
		if err := s.Unmap(addr, size); err != nil {
			return err
		}
	}
	return shared.Close()
}

// exchange writes on one side of each mapping and reads on the other.
func exchange(s *Stopped, code, data uint64, shared *Shared) error {
	word := []byte("some words")
	for _, addr := range []uint64{code, data + 4090, shared.Addr + 5000} {
		got := make([]byte, len(word))
		if err := s.Write(addr, word); err != nil {
			return err
		}
		if err := s.Read(addr, got); err != nil || !bytes.Equal(got, word) {
			return fmt.Errorf("read %q, %v", got, err)
		}
	}
	if got := shared.Mem[5000 : 5000+len(word)]; !bytes.Equal(got, word) {
		return fmt.Errorf("shared memory has %q here", got)
	}
	copy(shared.Mem[len(shared.Mem)-len(word):], word)
	got := make([]byte, len(word))
	if err := s.Read(shared.Addr+uint64(len(shared.Mem)-len(word)), got); err != nil || !bytes.Equal(got, word) {
		return fmt.Errorf("shared memory has %q there, %v", got, err)
	}
	return nil
}

// lookAt compares what the kernel says of mappings with what was wanted.
func lookAt(s *Stopped, code, data, shared uint64) error {
	maps, err := s.Maps()
	if err != nil {
		return err
	}
	for addr, want := range map[uint64]string{code: "r-xp ", data: "rw-p ", shared: "rw-s /memfd:" + Name + " (deleted)"} {
		m, ok := procmap.Of(maps, addr)
		path := strings.ReplaceAll(m.Path, "[anon:"+Name+"]", "") // where the kernel has names
		if got := m.Perms + " " + path; !ok || got != want || m.Start != addr {
			return fmt.Errorf("%#x is %q at %#x, want %q", addr, got, m.Start, want)
		}
	}
	smaps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", s.PID()))
	if err != nil {
		return err
	}
	_, of, _ := bytes.Cut(smaps, fmt.Appendf(nil, "%08x-", data))
	_, flags, _ := bytes.Cut(of, []byte("VmFlags:"))
	flags, _, _ = bytes.Cut(flags, []byte("\n"))
	if !bytes.Contains(flags, []byte(" wf")) {
		return fmt.Errorf("children inherit private data: flags%s", flags)
	}
	return nil
}

// TestWriteReadOnly writes to code, by the file and by words, and puts it back.
func TestWriteReadOnly(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	before := lookForLeftovers(t, target.PID())
	at := textRange(t, target.PID()).Start + 0x100b // within a word
	for _, poke := range []bool{false, true} {
		s := mustStop(t, target.PID(), Options{})
		err := s.Do(func() error {
			s.poke = poke
			old, got := make([]byte, 21), make([]byte, 21)
			if err := s.Read(at, old); err != nil {
				return err
			}
			if err := s.Write(at, []byte("twenty-one characters")); err != nil {
				return err
			}
			if err := s.Read(at, got); err != nil || string(got) != "twenty-one characters" {
				return fmt.Errorf("read %q, %v", got, err)
			}
			return s.Write(at, old)
		})
		if err != nil {
			t.Errorf("by words %v: %v", poke, err)
		}
		for _, addr := range []uint64{0, 0x1000, 1 << 62, ^uint64(0) - 20} {
			if err := s.Write(addr, []byte{1}); err == nil {
				t.Errorf("wrote at %#x", addr)
			}
			if err := s.Read(addr, make([]byte, 100)); err == nil {
				t.Errorf("read at %#x", addr)
			}
		}
		s.Release()
	}
	before.compare(t, lookForLeftovers(t, target.PID()))
}

func TestFindGap(t *testing.T) {
	const page = 4096
	maps := []procmap.Mapping{
		{Start: 0x400000, End: 0x500000}, {Start: 0x500000, End: 0x600000},
		{Start: 0x800000, End: 0x900000, Path: "[heap]"},
		{Start: 0x7f0000000000, End: 0x7f0000021000, Path: "[stack]"},
	}
	none := room{}
	for _, test := range []struct {
		name   string
		in     Window
		size   uint64
		brk    room
		want   uint64
		wanted bool
	}{
		{"below", Window{0x200000, 0x600000}, 0x2000, none, 0x3fd000, true},
		{"in the middle", Window{0x600000, 0x800000}, 0x1000, none, 0x700000, true},
		{"fills but a page on both sides", Window{0x600000, 0x800000}, 0x1fe000, none, 0x601000, true},
		{"a page too many", Window{0x600000, 0x800000}, 0x1ff000, none, 0, false},
		{"not where malloc grows", Window{0x600000, 0x20000000}, 0x1000, room{0x700000, 0x20000000}, 0x6fe000, true},
		{"not at zero", Window{0, 0x20000}, 0x1000, none, 0x11000, true},
		{"no window", Window{0x410000, 0x410000}, 0x1000, none, 0, false},
		{"window backwards", Window{0x900000, 0x100000}, 0x1000, none, 0, false},
		{"within a mapping", Window{0x400000, 0x600000}, 0x1000, none, 0, false},
		{"not where the stack grows", Window{0x7efffff00000, 0x7f0000000000}, 0x1000, none, 0, false},
		{"larger than everything", Window{0, 1 << 47}, 1 << 63, none, 0, false},
	} {
		got, ok := findGap(maps, test.in, test.size, page, test.brk)
		if ok != test.wanted || ok && got != test.want {
			t.Errorf("%s: %#x, %v, want %#x, %v", test.name, got, ok, test.want, test.wanted)
		}
	}
}
