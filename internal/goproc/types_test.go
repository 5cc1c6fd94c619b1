package goproc

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestParseName(t *testing.T) {
	old := func(length uint16, text string) []byte {
		return append(binary.BigEndian.AppendUint16([]byte{1}, length), text...)
	}
	varint := func(length uint64, text string) []byte {
		return append(binary.AppendUvarint([]byte{1}, length), text...)
	}
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name  string
		b     []byte
		minor int
		want  string
		ok    bool
	}{
		{"old", old(6, "main.T and more"), 16, "main.T", true},
		{"new", varint(6, "main.T and more"), 17, "main.T", true},
		{"long old", old(300, long), 12, long, true},
		{"long new", varint(300, long), 27, long, true},
		{"too long old", old(7, "main.T"), 12, "", false},
		{"too long new", varint(7, "main.T"), 27, "", false},
		{"huge", varint(1<<63, "main.T"), 27, "", false},
		{"endless", []byte{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80}, 27, "", false},
		{"short", []byte{1, 0}, 12, "", false},
		{"empty", varint(0, "xx"), 27, "", true},
	} {
		if got, err := parseName(c.b, c.minor); got != c.want || (err == nil) != c.ok {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add([]byte{1, 6, 'm', 'a', 'i', 'n', '.', 'T'}, 27)
	f.Add([]byte{1, 0, 6, 'm', 'a', 'i', 'n', '.', 'T'}, 12)
	f.Fuzz(func(t *testing.T, b []byte, minor int) {
		if name, err := parseName(b, minor); err == nil && len(name) > len(b) {
			t.Errorf("a name of %d bytes in %d", len(name), len(b))
		}
	})
}
