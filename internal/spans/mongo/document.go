package mongo

import (
	"bytes"
	"encoding/binary"
)

// Types of elements of documents in BSON.
const (
	typeString = 0x02
	typeInt32  = 0x10
	typeInt64  = 0x12
)

// commandOf returns the name of a command, given the beginning of its document; empty if it has none.
func commandOf(document []byte) string {
	if len(document) < 4 {
		return ""
	}
	name, _, _ := element(document[4:]) // after the length
	return name
}

// collectionOf returns the collection of a command, given the beginning of its document; empty if it has none.
func collectionOf(command string, document []byte) string {
	if len(document) < 4 {
		return ""
	}
	name, value, rest := element(document[4:]) // after the length
	switch {
	case name != command:
	case onCollection[command]:
		return value
	case command == "getMore": // its first value is the cursor
		if name, value, _ = element(rest); name == "collection" {
			return value
		}
	}
	return ""
}

// element returns the first element of a document without its length: its name, and its value if that is a string. rest is what follows
// it. It is nil if the element is not complete, or has a type that does not occur at the begin of commands.
func element(document []byte) (name, value string, rest []byte) {
	if len(document) == 0 {
		return "", "", nil
	}
	end := bytes.IndexByte(document[1:], 0)
	if end < 0 {
		return "", "", nil
	}
	name, rest = string(document[1:1+end]), document[end+2:]
	switch document[0] {
	case typeString:
		if len(rest) < 4 {
			return name, "", nil
		}
		size := uint64(binary.LittleEndian.Uint32(rest)) // with a zero byte
		if rest = rest[4:]; size == 0 || size > uint64(len(rest)) {
			return name, "", nil
		}
		return name, string(rest[:size-1]), rest[size:]
	case typeInt32:
		return name, "", after(rest, 4)
	case typeInt64:
		return name, "", after(rest, 8)
	}
	return name, "", nil
}

func after(b []byte, n int) []byte {
	if len(b) < n {
		return nil
	}
	return b[n:]
}
