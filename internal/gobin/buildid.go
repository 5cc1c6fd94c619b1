package gobin

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
)

// BuildID returns the build ID that the Go linker has written into an executable, which identifies its contents. It is empty if the
// executable has none, as with -ldflags=-buildid= and in programs of other compilers. BuildID reads little of the file. Whether the file
// is a Go program at all is for [New] to decide.
func BuildID(r io.ReaderAt) (id string, err error) {
	defer func() {
		if p := recover(); p != nil { // see New
			id, err = "", fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	_, f, err := openELF(r)
	if err != nil {
		return "", err
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes := make([]byte, min(p.Filesz, maxNotesBytes))
		if n, err := p.ReadAt(notes, 0); err == nil || n == len(notes) {
			if id, ok := goNote(notes, f.ByteOrder); ok {
				return id, nil
			}
		}
	}
	return "", nil
}

const (
	maxNotesBytes = 64 << 10
	maxBuildID    = 256 // bytes; the go command's have 83

	noteHeader  = 12
	goNoteName  = "Go\x00\x00"
	goNoteBuild = 4 // type of the note with the build ID (cmd/link/internal/ld/elf.go)
)

// goNote returns the build ID among ELF notes.
func goNote(b []byte, order binary.ByteOrder) (string, bool) {
	for len(b) >= noteHeader {
		name, desc, kind := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		b = b[noteHeader:]
		start := (name + 3) &^ 3
		end := start + desc
		if end > uint64(len(b)) {
			return "", false
		}
		if string(b[:name]) == goNoteName && kind == goNoteBuild {
			return string(b[start:end]), desc > 0 && desc <= maxBuildID
		}
		b = b[min((end+3)&^3, uint64(len(b))):]
	}
	return "", false
}
