package generation

import (
	"fmt"
	"io"

	"github.com/loupe-go/loupe/trace/raw"
)

// An Input reads a trace into chunks of memory. What it returns stays valid until the chunk that it lies in is
// recycled: the chunks of one generation are, together, when the generation has been used.
type Input struct {
	r   io.Reader
	buf []byte // the current chunk
	// pos and end bound what was read into buf and not taken.
	pos, end int
	before   int64 // offset in the trace of buf[0]
	done     bool
	err      error // why reading ended; io.EOF at the end of the trace

	used [][]byte // chunks that have data of the current generation, but for buf
	held int64    // bytes of the chunks that have data
	free [][]byte
}

const (
	// chunkSize is the size of a chunk. It holds many batches.
	chunkSize = 1 << 20
	// slack is what may be read beyond the end of data by code that checks afterwards.
	slack = 64
	// freeChunks bounds the chunks that are kept for use again.
	freeChunks = 64
)

// NewInput returns an Input that reads from r.
func NewInput(r io.Reader) *Input {
	in := &Input{r: r}
	in.buf = in.chunk(chunkSize)
	return in
}

// chunk returns memory of at least n bytes and slack.
func (in *Input) chunk(n int) []byte {
	in.held += int64(max(n, chunkSize))
	if last := len(in.free) - 1; n <= chunkSize && last >= 0 {
		b := in.free[last]
		in.free = in.free[:last]
		return b
	}
	return make([]byte, max(n, chunkSize)+slack)
}

// recycle takes back the chunks of a generation.
func (in *Input) recycle(chunks [][]byte) {
	for _, b := range chunks {
		in.held -= int64(len(b) - slack)
		if len(b) == chunkSize+slack && len(in.free) < freeChunks {
			in.free = append(in.free, b)
		}
	}
}

// Offset returns how many bytes of the trace were taken.
func (in *Input) Offset() int64 { return in.before + int64(in.pos) }

// size returns how many bytes can be taken without reading.
func (in *Input) size() int { return in.end - in.pos }

// need reads until n bytes can be taken, or nothing is left. It reports whether there are n.
func (in *Input) need(n int) bool {
	if in.size() >= n {
		return true
	}
	if !in.done {
		if in.pos+n > len(in.buf)-slack {
			in.move(n)
		}
		in.more(n)
	}
	return in.size() >= n
}

// move goes on in a new chunk with room for n bytes.
func (in *Input) move(n int) {
	b := in.chunk(n)
	copy(b, in.buf[in.pos:in.end])
	in.used = append(in.used, in.buf)
	in.before += int64(in.pos)
	in.buf, in.pos, in.end = b, 0, in.size()
}

// more reads until n bytes can be taken.
func (in *Input) more(n int) {
	const maxEmpty = 100
	empty := 0
	for in.size() < n && !in.done {
		got, err := in.r.Read(in.buf[in.end : len(in.buf)-slack])
		in.end += got
		if got > 0 {
			empty = 0
		} else if empty++; empty == maxEmpty && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil {
			in.done, in.err = true, err
		}
	}
}

// take returns the next n bytes, which must be there.
func (in *Input) take(n int) []byte {
	b := in.buf[in.pos : in.pos+n]
	in.pos += n
	return b
}

// finish returns the chunks that have been used since it was called last. What is left of the input goes to a new one.
func (in *Input) finish() [][]byte {
	in.move(0)
	chunks := in.used
	in.used = nil
	return chunks
}

// failure returns the error of the underlying reader; nil if it is the end of the trace.
func (in *Input) failure() error {
	if in.err == io.EOF {
		return nil
	}
	return in.err
}

// Rest returns a reader of what the input has left.
func (in *Input) Rest() io.Reader { return rest{in} }

// A rest reads what an input has left.
type rest struct{ in *Input }

func (r rest) Read(b []byte) (int, error) {
	if !r.in.need(1) {
		return 0, r.in.err
	}
	return copy(b, r.in.take(min(len(b), r.in.size()))), nil
}

// headerSize is the size of a trace's header.
const headerSize = 16

// ReadHeader takes the header of a trace and returns its version.
func ReadHeader(in *Input) (raw.Version, error) {
	in.need(headerSize)
	if err := in.failure(); err != nil && in.size() < headerSize {
		return 0, err
	}
	h := in.take(min(in.size(), headerSize))
	const begin, end = "go 1.", " trace\x00\x00\x00"
	if len(h) < headerSize || string(h[:len(begin)]) != begin || string(h[len(begin)+2:]) != end {
		return 0, raw.ErrHeader
	}
	v := 0
	for _, d := range h[len(begin) : len(begin)+2] {
		if d < '0' || d > '9' {
			return 0, raw.ErrHeader
		}
		v = 10*v + int(d-'0')
	}
	if !raw.Version(v).Valid() {
		return 0, fmt.Errorf("trace of Go 1.%d: %w", v, raw.ErrVersion)
	}
	return raw.Version(v), nil
}
