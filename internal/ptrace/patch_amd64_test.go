package ptrace

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// aSite is the branch of a stack check, jbe with a 32-bit distance, which a jump can replace.
type aSite struct {
	addr, to uint64
	old      []byte
}

// findSite finds that of runtime.gopark.
func findSite(exe string, bias uint64) (aSite, error) {
	f, err := elf.Open(exe)
	if err != nil {
		return aSite{}, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return aSite{}, err
	}
	text := f.Section(".text")
	for _, sym := range symbols {
		if sym.Name != "runtime.gopark" {
			continue
		}
		code := make([]byte, 40)
		if _, err := text.ReadAt(code, int64(sym.Value-text.Addr)); err != nil {
			return aSite{}, err
		}
		i := bytes.Index(code, []byte{0x0f, 0x86})
		if i < 0 || i > 20 {
			return aSite{}, fmt.Errorf("no stack check in %x", code)
		}
		addr := sym.Value + bias + uint64(i)
		far := int32(binary.LittleEndian.Uint32(code[i+2:]))
		return aSite{addr: addr, to: addr + 6 + uint64(int64(far)), old: code[i : i+6]}, nil
	}
	return aSite{}, errors.New("no symbol runtime.gopark")
}

// stub is code at an address that does what the branch does.
func (a aSite) stub(at uint64) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{0x0f, 0x86}, uint32(a.to-(at+6)))
	return binary.LittleEndian.AppendUint32(append(b, 0xe9), uint32(a.addr+6-(at+11)))
}

// jump is what replaces the branch.
func (a aSite) jump(stub uint64) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(stub-(a.addr+5))), 0x90)
}

// patchAndBack has a process go through a stub for a moment. What a killed one has left patched is put back.
func patchAndBack(s *Stopped, code uint64) error {
	a, err := findSite(fmt.Sprintf("/proc/%d/exe", s.PID()), 0)
	if err != nil {
		return err
	}
	if err := s.Write(code, a.stub(code)); err != nil {
		return err
	}
	now := make([]byte, len(a.old))
	if err := s.Read(a.addr, now); err != nil {
		return err
	}
	jump := a.jump(code)
	for _, e := range []Edit{{a.addr, now, jump}, {a.addr, jump, a.old}} {
		if err := s.Patch([]Edit{e}, false); err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
	}
	return nil
}

// TestPatch replaces an instruction of a function that runs all the time, and puts it back.
func TestPatch(t *testing.T) {
	for _, spec := range []testtarget.Spec{{}, {Cgo: true}, {PIE: true}} {
		t.Run(spec.String(), func(t *testing.T) {
			rounds := 100
			target := startMixer(t, spec, 2)
			pid := target.PID()
			before := lookForLeftovers(t, pid)
			var bias uint64
			if spec.PIE {
				bias = pieBias(t, fmt.Sprintf("/proc/%d/exe", pid), textRange(t, pid).Start, textRange(t, pid).Offset)
			}
			site, err := findSite(fmt.Sprintf("/proc/%d/exe", pid), bias)
			if err != nil {
				t.Fatal(err)
			}
			s := mustStopFit(t, pid, Options{One: true})
			code, err := mapProgram(s, windowAround(site.addr, site.addr), 4096, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Write(code, site.stub(code)); err != nil {
				t.Fatal(err)
			}
			s.Release()
			busy := 0
			patch := func(old, new []byte) {
				for {
					s := mustStop(t, pid, Options{})
					err := s.Patch([]Edit{{site.addr, old, new}}, spec.Cgo)
					s.Release()
					if err == nil {
						return
					}
					if !errors.Is(err, ErrBusy) {
						t.Fatal(err)
					}
					busy++
				}
			}
			for range rounds {
				patch(site.old, site.jump(code))
				time.Sleep(time.Millisecond)
				patch(site.jump(code), site.old)
			}
			for { // the page can go when nobody is in it
				s := mustStop(t, pid, Options{})
				rest, err := s.Resting([]Interval{{code, code + 4096}}, spec.Cgo)
				if err == nil && len(rest) == 0 {
					err = s.Unmap(code, 4096)
				}
				s.Release()
				if err != nil {
					t.Fatal(err)
				}
				if len(rest) == 0 {
					break
				}
			}
			checkSum(t, target)
			before.compare(t, lookForLeftovers(t, pid))
			t.Logf("%d times a thread was in the way", busy)
		})
	}
}

// pieBias returns what was added to the addresses of a position-independent program.
func pieBias(t *testing.T, exe string, start, offset uint64) uint64 {
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			return start - (p.Vaddr &^ 0xfff) + (p.Off &^ 0xfff) - offset
		}
	}
	t.Fatal("no code")
	return 0
}

// TestPatchRefused has nothing changed by edits of which one is wrong, or in the way of a thread.
func TestPatchRefused(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	pid := target.PID()
	before := lookForLeftovers(t, pid)
	s := mustStop(t, pid, Options{})
	text := textRange(t, pid)
	at := text.Start + 0x1000
	old := []byte(before.text[0x1000:0x1008])
	if err := s.Patch([]Edit{{at, old, bytes.Repeat([]byte{0xcc}, 8)}, {at + 16, []byte{1, 2, 3}, []byte{4, 5, 6}}}, false); err == nil {
		t.Error("replaced what was not there")
	}
	if err := s.Patch([]Edit{{at, old, old[:7]}}, false); err == nil {
		t.Error("replaced 8 bytes by 7")
	}
	if err := s.Patch([]Edit{{0x10, old, old}}, false); err == nil {
		t.Error("replaced bytes without memory")
	}
	pc := s.Threads()[0].Regs.PC()
	around := make([]byte, 4)
	if err := s.Read(pc-2, around); err != nil {
		t.Fatal(err)
	}
	err := s.Patch([]Edit{{at, old, bytes.Repeat([]byte{0xcc}, 8)}, {pc - 2, around, around}}, false)
	wantError(t, "bytes that a thread is in", err, ErrBusy)
	s.Release()
	before.compare(t, lookForLeftovers(t, pid))
	one := mustStop(t, pid, Options{One: true})
	if err := one.Patch(nil, false); err == nil {
		t.Error("patched a process of which only one thread is stopped")
	}
	one.Release()
}
