package exporttest

import (
	"errors"
	"io"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
)

// Exporter is a Writer of one of the formats.
type Exporter interface {
	Write(*event.Event) error
	Close() error
}

// full is a writer that fails after some bytes.
type full struct{ left int }

var errFull = errors.New("no space left")

func (f *full) Write(b []byte) (int, error) {
	if len(b) > f.left {
		return 0, errFull
	}
	f.left -= len(b)
	return len(b), nil
}

// Errors tests that an exporter tells the error of the writer below it, with every event from then on and by Close, and takes no
// events after Close.
func Errors(t *testing.T, open func(io.Writer) Exporter) {
	events := Random(1, 20_000)
	w := open(&full{left: 100_000})
	failed := 0
	for i := range events {
		if err := w.Write(&events[i]); errors.Is(err, errFull) {
			failed++
		} else if failed > 0 {
			t.Fatalf("event %d: %v after an error", i, err)
		}
	}
	if err := w.Close(); failed == 0 || !errors.Is(err, errFull) {
		t.Errorf("%d events failed; Close: %v", failed, err)
	}
	w = open(io.Discard)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Write(&events[0]); !errors.Is(err, timeline.ErrClosed) {
		t.Errorf("an event after Close: %v", err)
	}
	if err := w.Close(); !errors.Is(err, timeline.ErrClosed) {
		t.Errorf("Close after Close: %v", err)
	}
}
