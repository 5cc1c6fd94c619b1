package generation

import (
	"encoding/binary"
	"math/bits"

	"github.com/loupe-go/loupe/trace/internal/problem"
)

// Numbers of a trace are unsigned LEB128: seven bits in each byte, the lowest first, and the top bit set in all but the
// last byte.

const (
	// maxNumberSize is the most bytes that a number has.
	maxNumberSize = 10
	// tail is how many bytes may be read after the end of a batch.
	tail = 64

	continued = 0x8080808080808080 // the top bit of each of 8 bytes
)

// squeeze puts the lower seven bits of each of the eight bytes of x together.
func squeeze(x uint64) uint64 {
	x = x&0x007f007f007f007f | x&0x7f007f007f007f00>>1
	x = x&0x00003fff00003fff | x&0x3fff00003fff0000>>2
	return x&0x000000000fffffff | x&0x0fffffff00000000>>4
}

// Number returns the number at b[at:] and the index behind it, or -1 if it has more than 64 bits. b must go on for
// maxNumberSize bytes, what these are matters only if the number has them.
func Number(b []byte, at int) (x uint64, next int) {
	w := binary.LittleEndian.Uint64(b[at:])
	if stop := ^w & continued; stop != 0 {
		return squeeze(w & (stop ^ (stop - 1))), at + bits.TrailingZeros64(stop)>>3 + 1
	}
	x = squeeze(w)
	b8, b9 := b[at+8], b[at+9]
	x |= uint64(b8&0x7f) << 56
	switch {
	case b8 < 0x80:
		return x, at + 9
	case b9 > 1:
		return 0, -1
	}
	return x | uint64(b9)<<63, at + 10
}

// NumberFault returns what is wrong with a number at b[at:end] that Number did not find there.
func NumberFault(b []byte, at, end int) problem.Code {
	for i := at; i < end && i < at+maxNumberSize; i++ {
		if b[i] < 0x80 {
			return problem.Overflow
		}
	}
	if end-at >= maxNumberSize {
		return problem.Overflow
	}
	return problem.CutOff
}

// A Window tells where numbers are in a window of eight bytes. It fills a cache line.
type Window struct {
	// masks has the lower seven bits of those bytes that are the first, the second and so on of their number: all numbers
	// are put together at once.
	masks [windowBytes]uint64
	// left and right are how far to shift for each number.
	left, right [WindowNumbers]uint8
	// Ends has the index of the byte behind each number; Ends[0] is 0.
	Ends [WindowNumbers + 1]uint8
	// Count is how many numbers end in the window before one of more than windowBytes bytes.
	Count uint8
	_     [7]uint8
}

const (
	windowBytes   = 5 // the most that a number may have
	WindowNumbers = 5
)

// windows has the windows by which of the eight bytes are the last one of a number, a bit for each.
var windows = makeWindows()

func makeWindows() (all [256]Window) {
	for m := range all {
		w := &all[m]
		begin := 0
		for i := range 8 {
			nth := i - begin
			if nth >= windowBytes || int(w.Count) == WindowNumbers {
				break
			}
			w.masks[nth] |= 0x7f << (8 * i)
			if m>>i&1 == 0 {
				continue
			}
			w.left[w.Count] = uint8(64 - 8*(i+1))
			w.right[w.Count] = uint8(64 - 8*(nth+1))
			w.Count++
			w.Ends[w.Count] = uint8(i + 1)
			begin = i + 1
		}
	}
	return all
}

// WindowOf returns where the numbers of eight bytes are.
func WindowOf(w uint64) *Window {
	// The product puts the top bits of all bytes together in the highest byte.
	return &windows[(^w&continued)>>7*0x0102040810204080>>56]
}

// Together returns the window with the bits of each number put together at its first byte.
func (n *Window) Together(w uint64) uint64 {
	return w&n.masks[0] | w&n.masks[1]>>1 | w&n.masks[2]>>2 | w&n.masks[3]>>3 | w&n.masks[4]>>4
}

// Number returns the number with an index of a window that was put together. It is of no meaning if there are not so many.
func (n *Window) Number(together uint64, i int) uint64 {
	return together << (n.left[i] & 63) >> (n.right[i] & 63)
}
