package gobin

import "bytes"

// ToolInterface returns the fingerprint of the tool interface that `loupe go` compiled into the program, a hash of the Go release
// and the patches of the runtime. It is empty if the program does not have the tool interface.
//
// The patched runtime contains the fingerprint as a string between marks (internal/overlay/patches/base.patch).
func (b *Binary) ToolInterface() string {
	const digits, chunk = 32, 1 << 20
	if _, ok := b.LookupFunc("runtime.gltiReport"); !ok {
		return ""
	}
	// Loupe does not contain the mark as a whole, so that it does not find it in itself.
	mark := append([]byte("\xffloupe"), "\xffglti\xff"...)
	buf := make([]byte, chunk)
	overlap := uint64(len(mark) + digits + 1)
	for _, s := range b.image.segs {
		if s.write {
			continue
		}
		for at, end := s.addr, s.addr+s.filesz; at < end && end-at > overlap; at += chunk - overlap {
			part := buf[:min(chunk, end-at)]
			if b.image.read(part, at) != nil {
				return ""
			}
			_, found, ok := bytes.Cut(part, mark)
			if ok && len(found) > digits && found[digits] == 0xff && isHex(found[:digits]) {
				return string(found[:digits])
			}
		}
	}
	return ""
}

func isHex(text []byte) bool {
	for _, c := range text {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
