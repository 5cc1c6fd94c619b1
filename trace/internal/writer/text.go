package writer

import (
	"io"

	"github.com/loupe-go/loupe/trace/raw"
)

// A textOutput turns what a Writer writes into text.
type textOutput struct {
	*io.PipeWriter
	done chan error // has the error of the text when all of it is written
}

func newTextOutput(out io.Writer) *textOutput {
	r, pipe := io.Pipe()
	t := &textOutput{pipe, make(chan error, 1)}
	go func() {
		err := raw.WireToText(out, r)
		r.CloseWithError(err) // the Writer must not wait for a reader that has gone
		t.done <- err
	}()
	return t
}

// finish waits until all text is written.
func (t *textOutput) finish() error {
	t.Close()
	return <-t.done
}
