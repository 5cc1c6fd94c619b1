package glti

import (
	"encoding/binary"
	"runtime"
)

const canCheckRaw = true

// findCall returns the offset of an instruction that could leave a function. It looks at each offset, as it does not know where instructions
// begin.
func findCall(entry uintptr, code []byte) (at uintptr, found bool) {
	inside := func(to uintptr) bool { return to-entry < uintptr(len(code)) }
	for i := range code {
		at = uintptr(i)
		rest := code[i:]
		relative := func(n int) (to uintptr, ok bool) { // the target of an instruction of n bytes that ends with its displacement
			if len(rest) < n {
				return 0, false
			}
			return entry + at + uintptr(n) + uintptr(int32(binary.LittleEndian.Uint32(rest[n-4:]))), true
		}
		switch {
		case rest[0] == 0xe8: // CALL
			if to, ok := relative(5); ok && isCode(entry, to) {
				return at, true
			}
		case rest[0] == 0xe9: // JMP
			if to, ok := relative(5); ok && !inside(to) && isCode(entry, to) {
				return at, true
			}
		case len(rest) < 2:
		case rest[0] == 0x0f && rest[1]&0xf0 == 0x80: // conditional jump, which no compiler makes to a stub
			if to, ok := relative(6); ok && !inside(to) && runtime.FuncForPC(to) != nil {
				return at, true
			}
		case rest[0] == 0x0f && (rest[1] == 0x05 || rest[1] == 0x34): // SYSCALL, SYSENTER
			return at, true
		case rest[0] == 0xff && rest[1]>>3&7 >= 2 && rest[1]>>3&7 <= 5: // indirect CALL or JMP
			return at, true
		}
	}
	return 0, false
}
