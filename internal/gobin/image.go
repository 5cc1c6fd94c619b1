package gobin

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"sort"
)

// image is the memory of the executable as the loader would set it up: the relocated file contents by virtual address.
type image struct {
	r      io.ReaderAt
	elf    *elf.File
	segs   []segment
	relocs []reloc // sorted by offset; filled by loadRelocs
	cut    bool    // the file ends within its segments
}

// segment is a part of the file that is mapped into memory.
type segment struct {
	addr, memsz uint64
	off, filesz uint64
	read, write bool
	exec        bool
}

// A reloc is a relocation: the loader stores base+addend at addr.
type reloc struct{ addr, addend uint64 }

const maxRelocs = 16 << 20 // 384 MB of relocations, far more than any executable has

func newImage(r io.ReaderAt, size int64, f *elf.File) (*image, error) {
	im := &image{r: r, elf: f}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		filesz := p.Filesz
		if p.Off > uint64(size) {
			filesz = 0
		} else if filesz > uint64(size)-p.Off {
			filesz = uint64(size) - p.Off
		}
		im.cut = im.cut || filesz < p.Filesz
		im.segs = append(im.segs, segment{
			addr: p.Vaddr, memsz: p.Memsz, off: p.Off, filesz: min(filesz, p.Memsz),
			read: p.Flags&elf.PF_R != 0, write: p.Flags&elf.PF_W != 0, exec: p.Flags&elf.PF_X != 0,
		})
	}
	if len(im.segs) == 0 {
		return nil, fmt.Errorf("%w: no loadable segments", ErrCorrupt)
	}
	return im, nil
}

// segmentOf returns the segment that contains addr.
func (im *image) segmentOf(addr uint64) (segment, bool) {
	for _, s := range im.segs {
		if addr >= s.addr && addr-s.addr < s.memsz {
			return s, true
		}
	}
	return segment{}, false
}

// read fills p with the bytes at addr, zeros where the segment has no file contents. It does not apply relocations.
func (im *image) read(p []byte, addr uint64) error {
	s, ok := im.segmentOf(addr)
	if !ok || uint64(len(p)) > s.memsz-(addr-s.addr) {
		return fmt.Errorf("%w: address %#x+%d is outside of the file", ErrCorrupt, addr, len(p))
	}
	n := 0
	if rel := addr - s.addr; rel < s.filesz {
		n = int(min(uint64(len(p)), s.filesz-rel))
		if _, err := im.r.ReadAt(p[:n], int64(s.off+rel)); err != nil {
			return fmt.Errorf("%w: reading address %#x: %v", ErrCorrupt, addr, err)
		}
	}
	clear(p[n:])
	return nil
}

// readRelocated is read with the loader's relative relocations applied for a load bias of 0.
func (im *image) readRelocated(p []byte, addr uint64) error {
	if err := im.read(p, addr); err != nil {
		return err
	}
	end := addr + uint64(len(p))
	i := sort.Search(len(im.relocs), func(i int) bool { return im.relocs[i].addr >= addr })
	for ; i < len(im.relocs) && im.relocs[i].addr+8 <= end; i++ {
		binary.LittleEndian.PutUint64(p[im.relocs[i].addr-addr:], im.relocs[i].addend)
	}
	return nil
}

// loadRelocs reads the relative relocations of a position-independent executable. Relocations that are stored as a
// bitmap (RELR) have their addends in place and require no action.
func (im *image) loadRelocs() error {
	if im.elf.Type != elf.ET_DYN {
		return nil
	}
	addr, size, err := im.relaTable()
	if err != nil || size == 0 {
		return err
	}
	if size/24 > maxRelocs {
		return fmt.Errorf("%w: %d relocations", ErrCorrupt, size/24)
	}
	want := uint32(elf.R_X86_64_RELATIVE)
	if im.elf.Machine == elf.EM_AARCH64 {
		want = uint32(elf.R_AARCH64_RELATIVE)
	}
	chunk := make([]byte, 24*2048)
	for size >= 24 {
		b := chunk[:min(uint64(len(chunk)), size/24*24)]
		if err := im.read(b, addr); err != nil {
			return fmt.Errorf("relocations: %w", err)
		}
		addr, size = addr+uint64(len(b)), size-uint64(len(b))
		for ; len(b) > 0; b = b[24:] {
			if uint32(binary.LittleEndian.Uint64(b[8:])) == want {
				im.relocs = append(im.relocs, reloc{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[16:])})
			}
		}
	}
	less := func(i, j int) bool { return im.relocs[i].addr < im.relocs[j].addr }
	if !sort.SliceIsSorted(im.relocs, less) {
		sort.Slice(im.relocs, less)
	}
	return nil
}

// relaTable returns the address and size of the dynamic relocation table. The size is 0 if there is none.
func (im *image) relaTable() (addr, size uint64, err error) {
	dyn, err := im.dynamic()
	if err != nil {
		return 0, 0, err
	}
	return dyn[elf.DT_RELA], dyn[elf.DT_RELASZ], nil
}

// dynamic returns the entries of the dynamic segment that have a single value.
func (im *image) dynamic() (map[elf.DynTag]uint64, error) {
	tags := map[elf.DynTag]uint64{}
	for _, p := range im.elf.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		b := make([]byte, min(p.Filesz, 64<<10))
		if err := im.read(b, p.Vaddr); err != nil {
			return nil, fmt.Errorf("dynamic segment: %w", err)
		}
		for ; len(b) >= 16; b = b[16:] {
			tag := elf.DynTag(binary.LittleEndian.Uint64(b))
			if tag == elf.DT_NULL {
				break
			}
			tags[tag] = binary.LittleEndian.Uint64(b[8:])
		}
	}
	return tags, nil
}

// sectionAddr returns the address and the size of a section with any of the given names. ok is false if the file has no
// such section.
func (im *image) sectionAddr(names ...string) (addr, size uint64, ok bool) {
	for _, s := range im.elf.Sections {
		for _, name := range names {
			if s.Name == name && s.Type != elf.SHT_NOBITS && s.Addr != 0 {
				return s.Addr, s.Size, true
			}
		}
	}
	return 0, 0, false
}

// loadBias returns the load bias if the loader mapped the code at a file offset to the address start. The result is
// false if the file has no code at that offset.
func (im *image) loadBias(start, offset uint64) (uint64, bool) {
	const maxPage = 64 << 10
	for _, s := range im.segs {
		if s.exec && s.off >= offset && s.off-offset < maxPage {
			return start - (s.addr - (s.off - offset)), true
		}
	}
	return 0, false
}
