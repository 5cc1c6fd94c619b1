//go:build linux

package memtrace

import (
	"encoding/binary"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// canLeave reports whether hookStart can return to a function's caller from a site: there is no frame yet.
func canLeave(s insn.Site) bool { return s.SPMoved == 0 }

// bodyFor returns the code of a stub that calls the hook, for its address.
func bodyFor(p place) func(at uint64) []byte {
	const (
		moveLinkTo   = 0xAA1E03E0 // MOV Xn, X30
		moveLinkFrom = 0xAA1903FE // MOV X30, X25
		loadSP       = 0xF94003E0 // LDR Xn, [SP]
		callX17      = 0xD63F0220 // BLR X17
	)
	words := []uint32{moveLinkTo | 25}
	hook := hooks[p.hook]
	if p.hook == hookInner {
		caller := uint32(moveLinkTo | 24)
		if p.site.SPMoved != 0 { // the link register was saved
			caller = loadSP | 24
		}
		words = append(words, caller)
	}
	for i := range uint32(4) { // MOVZ, MOVK X17
		opcode := uint32(0xF2800011)
		if i == 0 {
			opcode = 0xD2800011
		}
		words = append(words, opcode|i<<21|uint32(hook>>(16*i)&0xFFFF)<<5)
	}
	words = append(words, callX17, moveLinkFrom)
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return func(uint64) []byte { return code }
}
