package gobin

import "fmt"

// Constant returns size bytes at an address of a segment that the program cannot write, from the file.
func (b *Binary) Constant(addr uint64, size int) ([]byte, error) {
	s, ok := b.image.segmentOf(addr)
	if !ok || s.write || size < 0 || uint64(size) > s.filesz || addr-s.addr > s.filesz-uint64(size) {
		return nil, fmt.Errorf("%s has no constant of %d bytes at %#x", b.path, size, addr)
	}
	text := make([]byte, size)
	if err := b.image.read(text, addr); err != nil {
		return nil, err
	}
	return text, nil
}
