package raw

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// asIs has the bytes that stand for themselves in a quoted string.
var asIs = makeAsIs()

func makeAsIs() (t [256]bool) {
	for c := ' '; c < utf8.RuneSelf-1; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}

// shortEscapes has the letters of the escapes that have one, and 0 for other bytes.
var shortEscapes = [256]byte{
	'\a': 'a', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '\v': 'v', '\\': '\\', '"': '"',
}

// maxQuoted is how many bytes a character takes at most in a quoted string: \U0010ffff.
const maxQuoted = 10

// addQuoted adds data as a quoted string, in the same form as strconv.Quote.
func (out *outputBuffer) addQuoted(data []byte) bool {
	if !out.addString(`"`) {
		return false
	}
	for len(data) > 0 {
		if !out.room(maxQuoted) {
			return false
		}
		b := out.buf[out.size:]
		n := 0
		for n < len(data) && n < len(b) && asIs[data[n]] {
			b[n] = data[n]
			n++
		}
		out.size += n
		data = data[n:]
		if n > 0 || len(data) == 0 {
			continue
		}
		used, size := putEscaped((*[maxQuoted]byte)(b), data)
		out.size += size
		data = data[used:]
	}
	return out.addString(`"`)
}

// putEscaped writes the first character of data to b, as it is in a quoted string. It returns how many bytes of data that
// is, and how many it wrote.
func putEscaped(b *[maxQuoted]byte, data []byte) (used, size int) {
	if e := shortEscapes[data[0]]; e != 0 {
		b[0], b[1] = '\\', e
		return 1, 2
	}
	r, used := utf8.DecodeRune(data)
	switch {
	case r == utf8.RuneError && used == 1, r < ' ', r == 0x7f:
		return 1, putHex(b[:], 'x', uint32(data[0]), 2)
	case strconv.IsPrint(r):
		return used, copy(b[:], data[:used])
	case r > 0xffff:
		return used, putHex(b[:], 'U', uint32(r), 8)
	}
	return used, putHex(b[:], 'u', uint32(r), 4)
}

// putHex writes an escape of a letter and some hexadecimal digits.
func putHex(b []byte, letter byte, x uint32, digits int) int {
	b[0], b[1] = '\\', letter
	for i := digits + 1; i > 1; i-- {
		b[i] = hexDigits[x&0xf]
		x >>= 4
	}
	return digits + 2
}
