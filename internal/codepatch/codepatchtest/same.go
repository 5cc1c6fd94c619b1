package codepatchtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// probeMark stands for the probe in lists of what code does.
const probeMark = "PROBE"

// markers are instructions without effect that stand for the probe's code.
var markers = map[string][]byte{
	insn.AMD64: {0x0F, 0x1F, 0x84, 0xAA, 0xEF, 0xBE, 0xAD, 0xDE}, // NOP with an operand
	insn.ARM64: {0x1F, 0x22, 0x03, 0xD5, 0xFF, 0x22, 0x03, 0xD5}, // two hints
}

// CheckSame checks that the function with the jump, and the stub at an address, does what it did before, with the probe in
// its place. It reads the instructions of both and executes none.
func CheckSame(t testing.TB, f codepatch.Function, site insn.Site, d *codepatch.Displacement, at uint64) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s at %#x: %s\nold %x", site.Kind, site.PC, fmt.Sprintf(format, args...), d.Old)
	}
	if off := d.Start - f.Entry; !bytes.Equal(d.Old, f.Code[off:off+(d.End-d.Start)]) {
		fail("these are not the bytes at %#x", d.Start)
		return
	}
	marker := markers[f.Arch]
	stub, err := d.Stub(at, func(uint64) []byte { return marker })
	if err != nil {
		fail("%v", err)
		return
	}
	if n := d.StubLen(len(marker)); n != len(stub) {
		fail("a stub of %d bytes instead of %d", len(stub), n)
	}
	jump, err := d.Jump(at)
	if err != nil || len(jump) != len(d.Old) {
		fail("jump %x, %v", jump, err)
		return
	}
	want, err := original(f, site, d)
	if err != nil {
		fail("%v", err)
		return
	}
	got, err := patched(f.Arch, d, jump, stub, at)
	if err != nil {
		fail("%v\nstub %x", err, stub)
		return
	}
	if !slices.Equal(got, want) {
		fail("the patched code does\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.Durable && f.Arch == insn.AMD64 && jump[0] != d.Old[0] && !bytes.Equal(jump[1:], d.Old[1:]) {
		fail("the jump %x begins with another byte, and that is not all that it replaces", jump)
	}
	end := d.End
	if f.Arch == insn.AMD64 && site.Kind == insn.SiteReturn && d.Start < site.PC { // the stub has a copy of what precedes it
		end = site.PC + 1
	}
	if pc, ok := branchInto(f, d.Start, end); ok {
		fail("the branch at %#x leads between %#x and %#x", pc, d.Start, end)
	}
}

// original lists what the displaced instructions do in their place.
func original(f codepatch.Function, site insn.Site, d *codepatch.Displacement) ([]string, error) {
	var list []string
	end := d.End
	if f.Arch == insn.AMD64 && site.Kind == insn.SiteReturn && d.Start < site.PC { // which is left alone
		end = site.PC
	}
	for pc := d.Start; pc < end; {
		s, err := read(f.Arch, f.Code[pc-f.Entry:], pc)
		if err != nil {
			return nil, err
		}
		if pc == site.PC && site.Kind != insn.SiteStackCheck {
			list = append(list, probeMark)
		}
		text := s.text
		if s.call {
			text = fmt.Sprintf("%s, back to %#x", text, pc+uint64(s.len))
		}
		list = append(list, text)
		if pc == site.PC && site.Kind == insn.SiteStackCheck {
			list = append(list, probeMark)
		}
		if s.ends || s.call {
			return list, nil
		}
		pc += uint64(s.len)
	}
	if end == site.PC {
		list = append(list, probeMark)
	}
	return append(list, goTo(end)), nil
}

// patched lists what the jump and the stub do.
func patched(arch string, d *codepatch.Displacement, jump, stub []byte, at uint64) ([]string, error) {
	first, err := read(arch, jump, d.Start)
	if err != nil {
		return nil, err
	}
	// The condition of JNO always holds behind a stack check.
	if first.target != at || !first.ends && !first.call && !(strings.HasPrefix(first.text, "JNO ") && d.Old[0] == 0x0F && d.Old[1] == 0x86) {
		return nil, fmt.Errorf("%s is no jump to the stub at %#x", first.text, at)
	}
	back := d.Start + uint64(first.len)
	if first.call && back != d.End {
		return nil, fmt.Errorf("the call returns to %#x", back)
	}
	var list []string
	for off := 0; off < len(stub); {
		if bytes.HasPrefix(stub[off:], markers[arch]) {
			list = append(list, probeMark)
			off += len(markers[arch])
			continue
		}
		s, err := readMoved(arch, stub[off:], at+uint64(off))
		if err != nil {
			return nil, err
		}
		off += s.len
		switch {
		case s.call:
			return nil, fmt.Errorf("the stub calls: %s", s.text)
		case s.ends && off != len(stub):
			return nil, fmt.Errorf("the stub goes on after %s", s.text)
		case off == len(stub) && !s.ends:
			return nil, fmt.Errorf("the stub ends with %s", s.text)
		case s.ends && first.call:
			s.text = fmt.Sprintf("call of %s, back to %#x", strings.TrimPrefix(s.text, "go to "), back)
		}
		list = append(list, s.text)
	}
	return list, nil
}

// said is what one instruction does.
type said struct {
	text   string // without a trace of where it stands
	len    int
	ends   bool // never goes on
	call   bool
	target uint64
}

func goTo(pc uint64) string { return fmt.Sprintf("go to %#x", pc) }

func read(arch string, code []byte, pc uint64) (said, error) {
	if arch == insn.ARM64 {
		return readARM64(code, pc)
	}
	return readAMD64(code, pc)
}

func readAMD64(code []byte, pc uint64) (said, error) {
	x, err := x86asm.Decode(code, 64)
	if err != nil {
		return said{}, fmt.Errorf("%x at %#x: %w", code[:min(len(code), 15)], pc, err)
	}
	s := said{len: x.Len}
	next := pc + uint64(x.Len)
	words := []string{x.Op.String()}
	relative := false
	for _, a := range x.Args {
		switch a := a.(type) {
		case nil:
		case x86asm.Rel:
			relative = true
			s.target = next + uint64(int64(a))
			words = append(words, fmt.Sprintf("%#x", s.target))
		case x86asm.Mem:
			if a.Base == x86asm.RIP {
				relative = true
				words = append(words, fmt.Sprintf("%s:[%#x]", a.Segment, next+uint64(int64(int32(a.Disp)))))
				continue
			}
			words = append(words, a.String())
		default:
			words = append(words, a.String())
		}
	}
	s.text = strings.Join(words, " ")
	switch {
	case x.Op == x86asm.JMP && s.target != 0:
		s.text, s.ends = goTo(s.target), true
	case x.Op == x86asm.CALL:
		s.text, s.call = strings.Replace(s.text, "CALL", "call of", 1), true
	case x.Op == x86asm.JMP, x.Op == x86asm.RET:
		s.ends = true
	}
	if !relative {
		s.text += fmt.Sprintf(" (%x)", code[:x.Len])
	} else if x.Op == x86asm.LEA || x.Op == x86asm.MOV || x.Op == x86asm.CMP {
		s.text += fmt.Sprintf(" (%d bytes)", x.MemBytes)
	}
	return s, nil
}

func readARM64(code []byte, pc uint64) (said, error) {
	x, err := arm64asm.Decode(code)
	if err != nil {
		return said{}, fmt.Errorf("%x at %#x: %w", code[:min(len(code), 4)], pc, err)
	}
	s := said{len: 4}
	words := []string{x.Op.String()}
	relative := false
	for _, a := range x.Args {
		switch a := a.(type) {
		case nil:
		case arm64asm.PCRel:
			relative = true
			s.target = pc + uint64(int64(a))
			if x.Op == arm64asm.ADRP {
				s.target = pc&^0xFFF + uint64(int64(a))
			}
			words = append(words, fmt.Sprintf("%#x", s.target))
		default:
			words = append(words, a.String())
		}
	}
	s.text = strings.Join(words, " ")
	_, conditional := x.Args[0].(arm64asm.Cond)
	switch x.Op {
	case arm64asm.B:
		if !conditional {
			s.text, s.ends = goTo(s.target), true
		}
	case arm64asm.ADR, arm64asm.ADRP:
		s.text = fmt.Sprintf("%s = %#x", x.Args[0], s.target)
	case arm64asm.BL:
		s.text, s.call = fmt.Sprintf("call of %#x", s.target), true
	case arm64asm.BLR:
		s.text, s.call = fmt.Sprintf("call of BR %s", x.Args[0]), true
	case arm64asm.BR, arm64asm.RET:
		s.ends = true
	default:
		if w := binary.LittleEndian.Uint32(code); w>>23 == 0xD2800000>>23 { // MOVZ
			s.text = fmt.Sprintf("X%d = %#x", w&31, uint64(w>>5&0xFFFF)<<(w>>21&3*16))
			break
		}
		if !relative {
			s.text += fmt.Sprintf(" (%x)", code[:4])
		}
	}
	return s, nil
}

// readMoved reads an instruction of a stub. On arm64 several can stand for one.
func readMoved(arch string, code []byte, pc uint64) (said, error) {
	s, err := read(arch, code, pc)
	if err != nil || arch != insn.ARM64 {
		return s, err
	}
	word := binary.LittleEndian.Uint32(code)
	if s.target == pc+8 && !s.ends && len(code) >= 8 { // a condition that jumps over a branch
		branch, err := readARM64(code[4:], pc+4)
		if err != nil || !branch.ends || branch.target == 0 {
			return said{}, fmt.Errorf("%s jumps over %s, %v", s.text, branch.text, err)
		}
		opposite := word ^ 1<<24
		if word>>24 == 0x54 {
			opposite = word ^ 1
		}
		turned, err := readARM64(binary.LittleEndian.AppendUint32(nil, opposite), pc)
		turned.text = strings.Replace(turned.text, fmt.Sprintf("%#x", pc+8), fmt.Sprintf("%#x", branch.target), 1)
		turned.len = 8
		return turned, err
	}
	if word>>23 != 0xD2800000>>23 { // MOVZ
		return s, nil
	}
	rd, value := word&31, uint64(0)
	for s.len = 0; s.len+4 <= len(code); s.len += 4 {
		w := binary.LittleEndian.Uint32(code[s.len:])
		if w&31 != rd || w>>23 != 0xF2800000>>23 && s.len > 0 { // MOVK
			break
		}
		value |= uint64(w>>5&0xFFFF) << (w >> 21 & 3 * 16)
	}
	s.text = fmt.Sprintf("X%d = %#x", rd, value)
	if s.len+4 > len(code) {
		return s, nil
	}
	load := binary.LittleEndian.Uint32(code[s.len:])
	name := map[uint32]string{0x2E5: "LDR W", 0x3E5: "LDR X", 0x2E6: "LDRSW X"}[load>>22]
	if name != "" && load>>5&31 == rd && load&31 == rd {
		s.text, s.len = fmt.Sprintf("%s%d %#x", name, rd, value), s.len+4
	}
	return s, nil
}

// branchInto finds a branch of the function that leads between two addresses.
func branchInto(f codepatch.Function, start, end uint64) (uint64, bool) {
	if f.Arch == insn.ARM64 {
		return 0, end-start > 4
	}
	list, err := insn.Instructions(insn.Code{Arch: f.Arch, Entry: f.Entry, Bytes: f.Code})
	if err != nil {
		return 0, true
	}
	for _, i := range list {
		x, err := x86asm.Decode(f.Code[i.PC-f.Entry:], 64)
		if err != nil || i.VEX {
			continue
		}
		rel, ok := x.Args[0].(x86asm.Rel)
		if to := i.PC + uint64(x.Len) + uint64(int64(rel)); ok && to > start && to < end {
			return i.PC, true
		}
	}
	return 0, false
}
