package cli

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/term"
)

// Limits on the size and the age of the text that loupe spans buffers.
const (
	spanBufferBytes = 64 << 10
	spanFlushPeriod = 50 * time.Millisecond
)

// A spanOutput writes text to stdout, and on a terminal a table below the text, which the next one replaces. It is not safe for
// concurrent use.
type spanOutput struct {
	w       io.Writer
	inPlace bool                                 // the table is replaced
	table   func(w io.Writer, columns, rows int) // writes the table; at most this number of rows, 0 means no limit

	text  []byte
	spans uint64 // in text, as lines of JSON
	drawn drawnTable

	written uint64 // spans
	err     error  // error of the first failed write; nothing is written after it
}

// A drawnTable is the size of a table on the terminal. The zero value is no table.
type drawnTable struct{ rows, columns int }

// flush writes the text, and on a terminal the table.
func (o *spanOutput) flush() {
	var b bytes.Buffer
	o.erase(&b)
	b.Write(o.text)
	if o.inPlace {
		const rest = 3 // the head of the table, the line after it, and that of the cursor
		columns, rows := term.Size(o.w)
		begin := b.Len()
		o.table(&b, columns, max(rows-rest, 1))
		o.drawn = sizeOf(b.Bytes()[begin:], columns)
	}
	o.write(b.Bytes())
}

// finish writes the text and the final table, which is not limited by the height of the terminal.
func (o *spanOutput) finish() {
	var b bytes.Buffer
	o.erase(&b)
	b.Write(o.text)
	if o.table != nil {
		o.table(&b, term.Width(o.w), 0)
	}
	o.inPlace = false
	o.write(b.Bytes())
}

func (o *spanOutput) write(b []byte) {
	if o.err == nil && len(b) > 0 {
		if _, o.err = o.w.Write(b); o.err == nil {
			o.written += o.spans
		}
	}
	o.text, o.spans = o.text[:0], 0
}

// erase removes the table from the terminal, if there is one. A table that is wider than the terminal has become stays there: how
// many lines it takes depends on the terminal.
func (o *spanOutput) erase(b *bytes.Buffer) {
	if o.drawn.rows > 0 && o.drawn.columns <= term.Width(o.w) {
		fmt.Fprintf(b, "\r\x1b[%dA\x1b[J", o.drawn.rows)
	}
	o.drawn = drawnTable{}
}

// sizeOf returns the size of a table on a terminal with a number of columns.
func sizeOf(text []byte, columns int) (d drawnTable) {
	for line := range bytes.Lines(text) {
		width := ansi.StringWidth(string(line))
		d.rows += 1 + max(width-1, 0)/max(columns, 1) // characters of two columns can exceed the width to which lines are cut
		d.columns = max(d.columns, min(width, columns))
	}
	return d
}

// A spanWriter writes to stdout, above the table.
type spanWriter struct{ v *spanView }

func (w spanWriter) Write(b []byte) (int, error) {
	w.v.mu.Lock()
	defer w.v.mu.Unlock()
	w.v.print(b)
	return len(b), w.v.out.err
}

// spanStderr is stderr on the terminal that has the table. The table is removed for what is written, and returns below it.
type spanStderr struct {
	*output.Stream
	v *spanView
}

func (s spanStderr) Write(b []byte) (int, error) {
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	if s.v.out.drawn.rows > 0 {
		var erase bytes.Buffer
		s.v.out.erase(&erase)
		s.v.out.w.Write(erase.Bytes()) // an error comes again
		s.v.timer.Reset(spanFlushPeriod)
	}
	return s.Stream.Write(b)
}
