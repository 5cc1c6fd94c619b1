package main

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
)

// blob is code that runs wherever it is put, on a page boundary.
type blob struct {
	code         []byte
	settings     uint64 // where the code expects the settings, from its beginning
	settingsSize uint64
	probes       []uint64
	stack        int
	fixups       []uint32 // of the instructions whose distance to the settings is in the code
}

const settingsSymbol = "settings"

// flatten lays out the sections of an object that are needed at run time, one after the other, and applies its relocations.
func flatten(path string, page uint64, probes []string) (*blob, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := &blob{}
	places := map[elf.SectionIndex]uint64{} // where sections are put
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, err
		}
		if s.Name == ".sizes" {
			b.settingsSize = binary.LittleEndian.Uint64(data)
			continue
		}
		if s.Flags&elf.SHF_WRITE != 0 || s.Type != elf.SHT_PROGBITS {
			return nil, fmt.Errorf("section %s: the probes must have no data of their own", s.Name)
		}
		for uint64(len(b.code))%s.Addralign != 0 {
			b.code = append(b.code, 0)
		}
		places[elf.SectionIndex(i)] = uint64(len(b.code))
		b.code = append(b.code, data...)
	}
	b.settings = (uint64(len(b.code)) + page - 1) / page * page
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Type == elf.SHT_RELA {
			if err := b.relocate(f, s, symbols, places); err != nil {
				return nil, err
			}
		}
	}
	return b, b.findProbes(symbols, places, probes)
}

// address returns where a symbol is, from the blob's beginning.
func (b *blob) address(s elf.Symbol, places map[elf.SectionIndex]uint64) (uint64, error) {
	if s.Section == elf.SHN_UNDEF && s.Name == settingsSymbol {
		return b.settings, nil
	}
	at, ok := places[s.Section]
	if !ok {
		return 0, fmt.Errorf("symbol %q is not in the blob", s.Name)
	}
	return at + s.Value, nil
}

func (b *blob) findProbes(symbols []elf.Symbol, places map[elf.SectionIndex]uint64, probes []string) error {
	named := map[string]elf.Symbol{}
	for _, s := range symbols {
		named[s.Name] = s
	}
	for _, p := range probes {
		s, ok := named["probe_"+p]
		if !ok {
			return fmt.Errorf("probe %s is declared but not defined", p)
		}
		at, err := b.address(s, places)
		if err != nil {
			return err
		}
		b.probes = append(b.probes, at)
	}
	return nil
}

func (b *blob) relocate(f *elf.File, rela *elf.Section, symbols []elf.Symbol, places map[elf.SectionIndex]uint64) error {
	base, ok := places[elf.SectionIndex(rela.Info)]
	if !ok {
		return nil // of a section that is not needed
	}
	data, err := rela.Data()
	if err != nil {
		return err
	}
	for ; len(data) >= 24; data = data[24:] {
		at := base + binary.LittleEndian.Uint64(data)
		info := binary.LittleEndian.Uint64(data[8:])
		addend := binary.LittleEndian.Uint64(data[16:])
		n := info >> 32
		if n == 0 || n > uint64(len(symbols)) {
			return fmt.Errorf("relocation at %#x: no symbol %d", at, n)
		}
		symbol := symbols[n-1]
		target, err := b.address(symbol, places)
		if err != nil {
			return fmt.Errorf("relocation at %#x: %w", at, err)
		}
		page := elf.R_AARCH64(uint32(info)) == elf.R_AARCH64_ADR_PREL_PG_HI21
		if symbol.Section == elf.SHN_UNDEF && (f.Machine != elf.EM_AARCH64 || page) {
			b.fixups = append(b.fixups, uint32(at))
		}
		if f.Machine == elf.EM_AARCH64 {
			err = b.relocateARM(elf.R_AARCH64(uint32(info)), at, target+addend)
		} else {
			err = b.relocateX86(elf.R_X86_64(uint32(info)), at, target+addend)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *blob) relocateX86(kind elf.R_X86_64, at, target uint64) error {
	switch kind {
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
		binary.LittleEndian.PutUint32(b.code[at:], uint32(target-at))
		return nil
	}
	return fmt.Errorf("relocation at %#x: %v is not relative to the code", at, kind)
}

// pageARM is what ADRP counts in, whatever pages the kernel has.
const pageARM = 4 << 10

func (b *blob) relocateARM(kind elf.R_AARCH64, at, target uint64) error {
	word := binary.LittleEndian.Uint32(b.code[at:])
	scale := -1
	switch kind {
	case elf.R_AARCH64_CALL26, elf.R_AARCH64_JUMP26:
		word = word&^(1<<26-1) | uint32(int64(target-at)>>2)&(1<<26-1)
	case elf.R_AARCH64_ADR_PREL_PG_HI21:
		pages := uint32(int64(target&^(pageARM-1)-at&^(pageARM-1)) >> 12)
		word = word&^(3<<29|(1<<19-1)<<5) | pages&3<<29 | pages>>2&(1<<19-1)<<5
	case elf.R_AARCH64_ADD_ABS_LO12_NC, elf.R_AARCH64_LDST8_ABS_LO12_NC:
		scale = 0
	case elf.R_AARCH64_LDST16_ABS_LO12_NC:
		scale = 1
	case elf.R_AARCH64_LDST32_ABS_LO12_NC:
		scale = 2
	case elf.R_AARCH64_LDST64_ABS_LO12_NC:
		scale = 3
	default:
		return fmt.Errorf("relocation at %#x: %v is not relative to the code", at, kind)
	}
	if scale >= 0 {
		low := uint32(target % pageARM)
		if low%(1<<scale) != 0 {
			return fmt.Errorf("relocation at %#x: %v to %#x, which is not aligned", at, kind, target)
		}
		word = word&^(0xfff<<10) | low>>scale<<10
	}
	binary.LittleEndian.PutUint32(b.code[at:], word)
	return nil
}
