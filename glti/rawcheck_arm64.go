package glti

import "encoding/binary"

const canCheckRaw = true

// findCall returns the offset of an instruction that could leave a function.
func findCall(entry uintptr, code []byte) (at uintptr, found bool) {
	for ; at+4 <= uintptr(len(code)); at += 4 {
		word := binary.LittleEndian.Uint32(code[at:])
		switch {
		case word>>26 == 0x25: // BL
			return at, true
		case word>>26 == 0x05: // B
			if to := at + uintptr(int32(word<<6)>>4); to >= uintptr(len(code)) {
				return at, true
			}
		case word>>25 == 0x6b && word>>21&0xf != 2: // BR, BLR and all like them, except RET
			return at, true
		case word&0xffe0001f == 0xd4000001: // SVC
			return at, true
		}
	}
	return 0, false
}
