package gobin

import "encoding/binary"

// Setting returns the address of the int32 with the value of a GODEBUG setting that the runtime reads only when it starts. ok is
// false if the release has no setting of this name.
//
// The runtime has a list of its settings, runtime.dbgvars (runtime/runtime1.go). An element begins with the name and the address of
// the variable.
func (b *Binary) Setting(name string) (addr uint64, ok bool) {
	const element, chunk = 24, 64 << 10
	buf, text := make([]byte, chunk), make([]byte, len(name))
	for _, s := range b.image.segs {
		if !s.write {
			continue
		}
		for at, end := (s.addr+7)&^7, s.addr+s.filesz; at < end && end-at >= element; at += chunk - element + 8 {
			part := buf[:min(chunk, end-at)]
			if b.image.readRelocated(part, at) != nil {
				return 0, false
			}
			for ; len(part) >= element; part = part[8:] {
				var word [element / 8]uint64
				for i := range word {
					word[i] = binary.LittleEndian.Uint64(part[8*i:])
				}
				if word[1] != uint64(len(name)) || !b.isData(word[2], 4) || b.image.read(text, word[0]) != nil || string(text) != name {
					continue
				}
				if ok && addr != word[2] {
					return 0, false // ambiguous
				}
				addr, ok = word[2], true
			}
		}
	}
	return addr, ok
}
