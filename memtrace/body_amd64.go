//go:build linux

package memtrace

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// canLeave reports whether hookStart can return to a function's caller from a site: the frame pointer is set.
func canLeave(s insn.Site) bool { return s.Framed }

// bodyFor returns the code of a stub that calls the hook, for its address. The code is nil if the hook is out of reach of the
// address.
func bodyFor(p place) func(at uint64) []byte {
	return func(at uint64) []byte {
		var code []byte
		if p.hook == hookInner {
			code = append(code, 0x4C, 0x8D, 0xAC, 0x24) // LEA R13, [RSP+n]
			code = binary.LittleEndian.AppendUint32(code, uint32(p.site.SPMoved))
		}
		code = append(code, 0xE8) // CALL
		distance := int64(uint64(hooks[p.hook]) - (at + uint64(len(code)) + 4))
		if distance != int64(int32(distance)) {
			return nil
		}
		return binary.LittleEndian.AppendUint32(code, uint32(distance))
	}
}
