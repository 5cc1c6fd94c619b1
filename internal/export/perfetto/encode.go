package perfetto

import "encoding/binary"

// Wire types of protobuf.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

// appendKey appends a field's number and wire type.
func appendKey(b []byte, field, wire uint64) []byte {
	key := field<<3 | wire
	if key < 0x80 {
		return append(b, byte(key))
	}
	return append(b, byte(key)|0x80, byte(key>>7))
}

// appendUint appends a field of type uint32, uint64, int32, int64, bool or an enum; negative numbers as their two's
// complement.
func appendUint(b []byte, field, v uint64) []byte {
	b = appendKey(b, field, wireVarint)
	if v < 0x80 {
		return append(b, byte(v))
	}
	return binary.AppendUvarint(b, v)
}

// appendFixed64 appends a field of type fixed64.
func appendFixed64(b []byte, field, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(b, field, wireFixed64), v)
}

// appendText appends a field of type string or bytes.
func appendText[T string | []byte](b []byte, field uint64, s T) []byte {
	b = appendKey(b, field, wireBytes)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// openMessage starts a field that is a message, or a text in several parts, and returns where its content starts.
// closeMessage must follow.
func openMessage(b []byte, field uint64) ([]byte, int) {
	b = append(appendKey(b, field, wireBytes), 0)
	return b, len(b)
}

// closeMessage writes the length of a message whose content starts at an offset. One byte is reserved for it; content of 128
// bytes and more is moved.
func closeMessage(b []byte, content int) []byte {
	n := len(b) - content
	if n < 0x80 {
		b[content-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(n))
	b = append(b, length[1:size]...) // makes room
	copy(b[content+size-1:], b[content:content+n])
	copy(b[content-1:], length[:size])
	return b
}
