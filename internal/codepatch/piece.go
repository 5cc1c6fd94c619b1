package codepatch

import (
	"encoding/binary"
	"fmt"
)

// piece is code that can stand anywhere once its reference, of which it has one
// at most, is made to fit.
type piece struct {
	code   []byte
	form   relForm
	field  int    // where in code the reference is
	target uint64 // what it refers to
}

// relForm is how a reference is written.
type relForm uint8

const (
	relNone relForm = iota
	// relX86 is 32 bits relative to the end of the piece.
	relX86
	// relArm is the 26 bits of words in B and BL, relative to the instruction.
	relArm
)

// How far references reach, less the longest instruction.
const (
	reachX86 = 1<<31 - 64
	reachArm = 1<<27 - 64
)

func (p piece) reach() uint64 {
	if p.form == relArm {
		return reachArm
	}
	return reachX86
}

// link appends the piece to code, where it stands at an address.
func (p piece) link(code []byte, at uint64) ([]byte, error) {
	if at+uint64(len(p.code)) < at {
		return nil, fmt.Errorf("code at %#x: %w", at, ErrReach)
	}
	start := len(code)
	code = append(code, p.code...)
	field := code[start+p.field:]
	switch p.form {
	case relX86:
		rel := int64(p.target - (at + uint64(len(p.code))))
		if rel != int64(int32(rel)) {
			return nil, fmt.Errorf("%#x from %#x: %w", p.target, at, ErrReach)
		}
		binary.LittleEndian.PutUint32(field, uint32(rel))
	case relArm:
		rel := int64(p.target - (at + uint64(p.field)))
		if rel < -1<<27 || rel >= 1<<27 || rel&3 != 0 {
			return nil, fmt.Errorf("%#x from %#x: %w", p.target, at, ErrReach)
		}
		w := binary.LittleEndian.Uint32(field)
		binary.LittleEndian.PutUint32(field, w&^armImm26|uint32(rel>>2)&armImm26)
	}
	return code, nil
}

// appendPieces links pieces one after the other. code stands at an address.
func appendPieces(code []byte, at uint64, pieces []piece) ([]byte, error) {
	for _, p := range pieces {
		var err error
		if code, err = p.link(code, at+uint64(len(code))); err != nil {
			return nil, err
		}
	}
	return code, nil
}
