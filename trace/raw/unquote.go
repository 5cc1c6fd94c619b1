package raw

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

var (
	errUnquoted   = errors.New("data is not quoted")
	errUnfinished = errors.New("unterminated quoted data")
	errEscape     = errors.New("invalid escape sequence in data")
	errData       = tooMany("bytes of data or more", MaxData+1, MaxData)
)

// unquote appends what a Go string, which b begins with, stands for. Nothing but a comment may follow it.
func unquote(data, b []byte) ([]byte, error) {
	b = trimSpace(b)
	var err error
	switch {
	case len(b) > 0 && b[0] == '"':
		data, b, err = unquoteInterpreted(data, b[1:])
	case len(b) > 0 && b[0] == '`':
		data, b, err = unquoteRaw(data, b[1:])
	default:
		err = errUnquoted
	}
	if err != nil {
		return data, err
	}
	if tok, _ := token(b); len(tok) > 0 {
		return data, fmt.Errorf("%s after the data", quoted(tok))
	}
	if len(data) > MaxData {
		return data, errData
	}
	return data, nil
}

// unquoteRaw appends a raw string, whose first quote was taken from b.
func unquoteRaw(data, b []byte) (_, rest []byte, err error) {
	i := bytes.IndexByte(b, '`')
	if i < 0 {
		return data, b, errUnfinished
	}
	for _, c := range b[:i] {
		if c != '\r' {
			data = append(data, c)
		}
	}
	return data, b[i+1:], nil
}

// unquoteInterpreted appends a string with escape sequences, whose first quote was taken from b.
func unquoteInterpreted(data, b []byte) (_, rest []byte, err error) {
	for {
		n := 0
		for n < len(b) && b[n] != '"' && b[n] != '\\' {
			n++
		}
		data = append(data, b[:n]...)
		b = b[n:]
		if len(b) == 0 {
			return data, b, errUnfinished
		}
		if b[0] == '"' {
			return data, b[1:], nil
		}
		if data, b, err = unescape(data, b[1:]); err != nil {
			return data, b, err
		}
	}
}

// letterEscapes has what the escapes of a single letter stand for, and 0 for other letters.
var letterEscapes = [256]byte{
	'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\', '"': '"',
}

// unescape appends what an escape sequence stands for, whose backslash was taken from b.
func unescape(data, b []byte) (_, rest []byte, err error) {
	if len(b) == 0 {
		return data, b, errUnfinished
	}
	letter := b[0]
	if c := letterEscapes[letter]; c != 0 {
		return append(data, c), b[1:], nil
	}
	digits, base := 0, uint32(16)
	switch {
	case letter == 'x':
		digits = 2
	case letter == 'u':
		digits = 4
	case letter == 'U':
		digits = 8
	case '0' <= letter && letter <= '7':
		x, ok := parseDigits(b, 3, 8)
		if !ok || x > 255 {
			return data, b, errEscape
		}
		return append(data, byte(x)), b[3:], nil
	default:
		return data, b, errEscape
	}
	x, ok := parseDigits(b[1:], digits, base)
	if !ok {
		return data, b, errEscape
	}
	b = b[1+digits:]
	if letter == 'x' {
		return append(data, byte(x)), b, nil
	}
	if x > utf8.MaxRune || !utf8.ValidRune(rune(x)) {
		return data, b, errEscape
	}
	return utf8.AppendRune(data, rune(x)), b, nil
}

// parseDigits returns the number that the first n digits of b are, of base 8 or 16.
func parseDigits(b []byte, n int, base uint32) (x uint32, ok bool) {
	if len(b) < n {
		return 0, false
	}
	for _, c := range b[:n] {
		d := uint32(16)
		switch {
		case '0' <= c && c <= '9':
			d = uint32(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			d = uint32(c|0x20-'a') + 10
		}
		if d >= base {
			return 0, false
		}
		x = x*base + d
	}
	return x, true
}
