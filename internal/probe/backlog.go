package probe

// backlog buffers records until the caller reads events.
type backlog struct {
	chunks [][]byte
	size   int
}

const (
	chunkSize  = 1 << 20
	maxBacklog = 256 << 20 // in bytes; further records stay in the engine's buffer
)

// add copies a record. It returns false if the backlog is full.
func (b *backlog) add(raw []byte) bool {
	n := len(b.chunks)
	if n == 0 || len(b.chunks[n-1])+len(raw)+8 > chunkSize {
		b.chunks = append(b.chunks, make([]byte, 0, chunkSize))
		b.size += chunkSize
		n++
	}
	c := b.chunks[n-1]
	length := uint64(len(raw))
	c = append(c, byte(length), byte(length>>8), byte(length>>16), 0, 0, 0, 0, 0)
	c = append(c, raw...)
	for len(c)%8 != 0 {
		c = append(c, 0)
	}
	b.chunks[n-1] = c
	return b.size < maxBacklog
}

// drain calls record with each record in order until it returns false.
func (b *backlog) drain(record func([]byte) bool) {
	if b == nil {
		return
	}
	for _, c := range b.chunks {
		for len(c) > 0 {
			n := int(c[0]) | int(c[1])<<8 | int(c[2])<<16
			if !record(c[8 : 8+n : 8+n]) {
				return
			}
			c = c[8+(n+7)&^7:]
		}
	}
}
