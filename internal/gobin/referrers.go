package gobin

import (
	"encoding/binary"
	"slices"
)

// Referrers returns the functions whose code computes an address, and the number of words outside of code that contain it. It reads the whole
// executable. A function is returned once for each place.
func (b *Binary) Referrers(addr uint64) (functions []Func, words int, err error) {
	find := computesAMD64
	if b.arch == "arm64" {
		find = computesARM64
	}
	for _, s := range b.image.segs {
		if !s.exec {
			continue
		}
		err = b.eachChunk(s, func(code []byte, at uint64) {
			for _, off := range find(code, at, addr) {
				if f, ok := b.FuncForPC(at + uint64(off)); ok {
					functions = append(functions, f)
				}
			}
		})
		if err != nil {
			return nil, 0, err
		}
	}
	at, err := b.pointersTo(addr, true)
	return functions, len(at), err
}

// overlap is how many bytes of a chunk are also in the next one, so that no instruction is cut in both.
const overlap = 16

// eachChunk calls f with each part of what a segment has in the file, and with its address.
func (b *Binary) eachChunk(s segment, f func(chunk []byte, at uint64)) error {
	buf := make([]byte, 256<<10)
	for off := uint64(0); off < s.filesz; off += uint64(len(buf)) - overlap {
		chunk := buf[:min(uint64(len(buf)), s.filesz-off)]
		if err := b.image.read(chunk, s.addr+off); err != nil {
			return err
		}
		f(chunk, s.addr+off)
	}
	return nil
}

// computesAMD64 returns where code computes an address relative to the program counter: LEA with a 64-bit register.
func computesAMD64(code []byte, at, addr uint64) (offsets []int) {
	const before = 3 // REX.W, the opcode, ModRM
	for i := before; i+4 <= len(code); i++ {
		if binary.LittleEndian.Uint32(code[i:]) == uint32(addr-at-uint64(i)-4) && code[i-1]&0xC7 == 0x05 && code[i-2] == 0x8D && code[i-3]&0xF8 == 0x48 {
			offsets = append(offsets, i-before)
		}
	}
	return offsets
}

// computesARM64 returns where code computes an address relative to the program counter: ADRP, and an ADD soon after it.
func computesARM64(code []byte, at, addr uint64) (offsets []int) {
	const soon = 4 // instructions
	for i := int(-at & 3); i+4 <= len(code); i += 4 {
		w := binary.LittleEndian.Uint32(code[i:])
		if w&0x9F000000 != 0x90000000 { // ADRP
			continue
		}
		pages := int64(int32(w>>5&0x7FFFF<<2|w>>29&3)<<11) >> 11
		if (at+uint64(i))&^0xFFF+uint64(pages<<12) != addr&^0xFFF {
			continue
		}
		for j := i + 4; j+4 <= len(code) && j <= i+4*soon; j += 4 {
			add := binary.LittleEndian.Uint32(code[j:])
			if add&0xFFC00000 == 0x91000000 && add>>5&31 == w&31 && uint64(add>>10&0xFFF) == addr&0xFFF { // ADD Xd, Xn, #imm
				offsets = append(offsets, i)
				break
			}
		}
	}
	return offsets
}

// pointersTo returns the aligned addresses outside of code that contain an address after relocation: those that are writable, or all.
func (b *Binary) pointersTo(addr uint64, all bool) ([]uint64, error) {
	var found []uint64
	for _, r := range b.image.relocs {
		if r.addend == addr {
			found = append(found, r.addr)
		}
	}
	table, size, err := b.image.relaTable() // contains the address, too
	if err != nil {
		size = 0
	}
	for _, s := range b.image.segs {
		if s.exec || !s.write && !all {
			continue
		}
		err := b.eachChunk(s, func(chunk []byte, at uint64) {
			for i := 0; i+8 <= len(chunk); i += 8 {
				if binary.LittleEndian.Uint64(chunk[i:]) == addr && at+uint64(i)-table >= size {
					found = append(found, at+uint64(i))
				}
			}
		})
		if err != nil {
			return found, err
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil // chunks overlap, and a relocated word can contain the address already
}
