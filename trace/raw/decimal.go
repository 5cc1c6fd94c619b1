package raw

import "encoding/binary"

const (
	// maxDecimal is how many digits a number takes at most.
	maxDecimal = 20
	// decimalRoom is the room that putDecimal needs: it may write beyond the digits.
	decimalRoom = maxDecimal + 4
)

// triples has the digits of the numbers up to 999, the first digit in the lowest byte, with leading zeros.
var triples = makeTriples()

// shorts has the same without leading zeros, and how many digits they are in the highest byte.
var shorts = makeShorts()

func makeTriples() (t [1000]uint32) {
	for i := range t {
		x := uint32(i)
		t[i] = '0' + x/100 | ('0'+x/10%10)<<8 | ('0'+x%10)<<16
	}
	return t
}

func makeShorts() (t [1000]uint32) {
	triples := makeTriples()
	for i := range t {
		digits := 1
		if i >= 100 {
			digits = 3
		} else if i >= 10 {
			digits = 2
		}
		t[i] = triples[i]>>(8*(3-digits)) | uint32(digits)<<24
	}
	return t
}

// putDecimal writes the digits of x to b, which has decimalRoom, and returns how many they are.
func putDecimal(b []byte, x uint64) int {
	if x < 1000 {
		digits := shorts[x]
		binary.LittleEndian.PutUint32(b, digits)
		return int(digits >> 24)
	}
	high := x / 1000
	n := putDecimal(b, high)
	binary.LittleEndian.PutUint32(b[n:], triples[x-high*1000])
	return n + 3
}
