package raw

import (
	"errors"
	"math/bits"
)

// Numbers are unsigned LEB128: seven bits in each byte, the lowest first, and the top bit set in all but the last byte.
// More bytes than needed are valid; the runtime writes 10 where it fills in a number afterwards.

// maxVarint is how many bytes a number takes at most.
const maxVarint = 10

// errOverflow says that a number does not fit.
var errOverflow = errors.New("number exceeds 64 bits")

// varintSize returns how many bytes the shortest form of x takes.
func varintSize(x uint64) int {
	return (bits.Len64(x|1)*9 + 64) >> 6
}

// decodeVarint returns the number at the begin of b and how many bytes it takes. The size is 0 if the number has more than
// 64 bits.
func decodeVarint(b *[maxVarint]byte) (x uint64, size int) {
	for i, y := range b {
		if y < 0x80 {
			if i == maxVarint-1 && y > 1 {
				return 0, 0
			}
			return x | uint64(y)<<(7*uint(i)&63), i + 1
		}
		x |= uint64(y&0x7f) << (7 * uint(i) & 63)
	}
	return 0, 0
}

// putVarint writes the shortest form of x to b and returns its size.
func putVarint(b *[maxVarint]byte, x uint64) int {
	i := 0
	for ; x >= 0x80 && i < maxVarint-1; i++ {
		b[i] = byte(x) | 0x80
		x >>= 7
	}
	b[i] = byte(x)
	return i + 1
}

// putVarintWidth writes x to b in width bytes, or in as many as it needs if those are more, and returns how many. width
// is at most maxVarint.
func putVarintWidth(b *[maxVarint]byte, x uint64, width uint8) int {
	n := putVarint(b, x)
	if n >= int(width) {
		return n
	}
	for b[n-1] |= 0x80; n < int(width)-1; n++ {
		b[n] = 0x80
	}
	b[n] = 0
	return n + 1
}
