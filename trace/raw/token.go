package raw

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// token returns the first token of a line and what follows it. Tokens are separated by white space; a # begins a comment.
// The token is empty if there is none.
func token(line []byte) (tok, rest []byte) {
	line = trimSpace(line)
	end := 0
	for end < len(line) && line[end] != '#' {
		size := spaceSize(line[end:])
		if size > 0 {
			break
		}
		end++
	}
	return line[:end], line[end:]
}

// trimSpace returns what follows the white space that b begins with.
func trimSpace(b []byte) []byte {
	for len(b) > 0 {
		n := spaceSize(b)
		if n == 0 {
			break
		}
		b = b[n:]
	}
	return b
}

// spaceSize returns how many bytes the white space character at the begin of b has, which is not empty, or 0 if there is
// another character.
func spaceSize(b []byte) int {
	switch c := b[0]; {
	case c == ' ' || '\t' <= c && c <= '\r':
		return 1
	case c < utf8.RuneSelf:
		return 0
	}
	r, size := utf8.DecodeRune(b)
	if unicode.IsSpace(r) {
		return size
	}
	return 0
}

// parseArgs reads the named numbers of a line, and that nothing follows them.
func parseArgs(values []uint64, line []byte, names []string) error {
	for i, name := range names {
		var tok []byte
		tok, line = token(line)
		if len(tok) == 0 {
			return fmt.Errorf("argument %s is missing", name)
		}
		arg, value, ok := bytes.Cut(tok, []byte("="))
		if !ok || string(arg) != name {
			return fmt.Errorf("want argument %s, got %s", name, quoted(tok))
		}
		x, ok := parseDecimal(value)
		if !ok {
			return fmt.Errorf("argument %s: %s is not a number from 0 to %d", name, quoted(value), uint64(math.MaxUint64))
		}
		values[i] = x
	}
	if tok, _ := token(line); len(tok) > 0 {
		return fmt.Errorf("%s after the last argument", quoted(tok))
	}
	return nil
}

// parseDecimal returns the number that b is. ok is false if it is none, or does not fit.
func parseDecimal(b []byte) (x uint64, ok bool) {
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || x > (math.MaxUint64-d)/10 {
			return 0, false
		}
		x = x*10 + d
	}
	return x, len(b) > 0
}

// quoted returns a piece of input for an error: quoted, and shortened where it is long.
func quoted(b []byte) string {
	const most = 40
	if len(b) > most {
		return strconv.Quote(string(b[:most])) + "..."
	}
	return strconv.Quote(string(b))
}

// cutData returns what follows the "data=" of a line. ok is false if the line is no line of data.
func cutData(line []byte) (value []byte, ok bool) {
	line, ok = bytes.CutPrefix(trimSpace(line), []byte("data"))
	if !ok {
		return nil, false
	}
	return bytes.CutPrefix(trimSpace(line), []byte("="))
}
