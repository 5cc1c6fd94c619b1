package testtarget

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
)

// pclntabSection is the section with the table of functions and lines.
const pclntabSection = ".gopclntab"

// Offsets in the ELF-64 file header and its tables, from elf(5).
const (
	elfShoff     = 0x28 // of the section table
	elfShnum     = 0x3c
	elfShstrndx  = 0x3e
	elfPhoff     = 0x20 // of the program headers
	elfPhnum     = 0x38
	elfPhentsize = 56
	elfShentsize = 64
	shOffset     = 0x18 // in a section header
	shSize       = 0x20
	phOffset     = 0x08 // in a program header
	phFilesz     = 0x20
)

// A damage changes the image of a Go program. It may return a part of it. The
// size of the file, when that is to be larger than the image, comes second.
type damage func(image []byte) (damaged []byte, size int64, err error)

// damaged returns a maker of bad binaries that damages the program tiny.
func damaged(d damage) func(dir, name string) (string, error) {
	return func(dir, name string) (string, error) {
		good, err := build(Spec{Program: "tiny", Arch: AMD64}.withDefaults())
		if err != nil {
			return "", err
		}
		image, err := os.ReadFile(good)
		if err != nil {
			return "", err
		}
		image, size, err := d(image)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, image, 0o777); err != nil {
			return "", err
		}
		if size > int64(len(image)) {
			return path, os.Truncate(path, size)
		}
		return path, nil
	}
}

// cutAt keeps the first bytes.
func cutAt(size int) damage {
	return func(image []byte) ([]byte, int64, error) { return image[:min(size, len(image))], 0, nil }
}

// cutLastByte leaves out one byte.
func cutLastByte(image []byte) ([]byte, int64, error) { return image[:len(image)-1], 0, nil }

// cutInside cuts the file in the middle of the first of the sections it has.
func cutInside(sections ...string) damage {
	return func(image []byte) ([]byte, int64, error) {
		found, err := findSections(image, sections)
		if err != nil {
			return nil, 0, err
		}
		return image[:found[0].Offset+found[0].FileSize/2], 0, nil
	}
}

// growSparse makes the file very large without using space for it.
func growSparse(size int64) damage {
	return func(image []byte) ([]byte, int64, error) {
		// With the last section claiming the new room, that one is large too.
		table := binary.LittleEndian.Uint64(image[elfShoff:])
		count := uint64(binary.LittleEndian.Uint16(image[elfShnum:]))
		last := image[table+(count-1)*elfShentsize:]
		offset := binary.LittleEndian.Uint64(last[shOffset:])
		binary.LittleEndian.PutUint64(last[shSize:], uint64(size)-offset)
		return image, size, nil
	}
}

// badSectionTable has the section table begin beyond the end.
func badSectionTable(image []byte) ([]byte, int64, error) {
	binary.LittleEndian.PutUint64(image[elfShoff:], 1<<62)
	return image, 0, nil
}

// badSectionCount claims more sections than fit.
func badSectionCount(image []byte) ([]byte, int64, error) {
	binary.LittleEndian.PutUint16(image[elfShnum:], 0xfeff)
	return image, 0, nil
}

// badSectionNames says that a section that does not exist has the names.
func badSectionNames(image []byte) ([]byte, int64, error) {
	binary.LittleEndian.PutUint16(image[elfShstrndx:], 0xfefe)
	return image, 0, nil
}

// badSectionSizes has every section be as large as an address space.
func badSectionSizes(image []byte) ([]byte, int64, error) {
	table := binary.LittleEndian.Uint64(image[elfShoff:])
	for i := uint64(1); i < uint64(binary.LittleEndian.Uint16(image[elfShnum:])); i++ {
		binary.LittleEndian.PutUint64(image[table+i*elfShentsize+shSize:], 1<<63-1)
	}
	return image, 0, nil
}

// badProgramHeaders has every segment lie beyond the end.
func badProgramHeaders(image []byte) ([]byte, int64, error) {
	table := binary.LittleEndian.Uint64(image[elfPhoff:])
	for i := uint64(0); i < uint64(binary.LittleEndian.Uint16(image[elfPhnum:])); i++ {
		header := image[table+i*elfPhentsize:]
		binary.LittleEndian.PutUint64(header[phOffset:], 1<<62)
		binary.LittleEndian.PutUint64(header[phFilesz:], 1<<62)
	}
	return image, 0, nil
}

// noiseIn fills sections with noise, except for their first 16 bytes, by which
// they are recognised. Of the named sections those that exist are taken.
func noiseIn(sections ...string) damage {
	return func(image []byte) ([]byte, int64, error) {
		found, err := findSections(image, sections)
		if err != nil {
			return nil, 0, err
		}
		noise := rand.New(rand.NewSource(1))
		for _, s := range found {
			from := s.Offset + min(16, s.FileSize)
			noise.Read(image[from : s.Offset+s.FileSize])
		}
		return image, 0, nil
	}
}

// zeroIn fills a section with zeros.
func zeroIn(sections ...string) damage {
	return func(image []byte) ([]byte, int64, error) {
		found, err := findSections(image, sections)
		if err != nil {
			return nil, 0, err
		}
		for _, s := range found {
			clear(image[s.Offset : s.Offset+s.FileSize])
		}
		return image, 0, nil
	}
}

// noiseEverywhere changes one byte in 64 all over the file after the identification.
func noiseEverywhere(image []byte) ([]byte, int64, error) {
	noise := rand.New(rand.NewSource(2))
	for i := elf.EI_NIDENT; i < len(image); i += 1 + noise.Intn(127) {
		image[i] = byte(noise.Int())
	}
	return image, 0, nil
}

// findSections returns those of the named sections that are in the file, at
// least one.
func findSections(image []byte, names []string) ([]*elf.Section, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	var found []*elf.Section
	for _, name := range names {
		if s := f.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the program has none of the sections %q", names)
	}
	return found, nil
}
