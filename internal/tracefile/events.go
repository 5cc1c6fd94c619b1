package tracefile

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Events are the events of an input, in the order in which they happened.
type Events struct {
	in     *Input
	ctx    context.Context
	reader *trace.Reader

	seen        bool
	first, last int64
}

// Events begins to read the events of a trace of the wire format.
func (in *Input) Events(ctx context.Context) (*Events, error) {
	if err := in.NeedWire(); err != nil {
		return nil, err
	}
	return in.events(ctx, in)
}

// events begins to read the events of a trace that comes from an input.
func (in *Input) events(ctx context.Context, r io.Reader) (*Events, error) {
	reader, err := trace.NewReader(interruptible{ctx, r})
	if err != nil {
		return nil, in.noTrace(err)
	}
	reader.MaxMemory = in.MaxMemory
	return &Events{in: in, ctx: ctx, reader: reader}, nil
}

// Batches yields some hundred events at a time, which are overwritten by the next ones, as trace.Reader.Batches does. An
// error names the input.
func (ev *Events) Batches() iter.Seq2[[]event.Event, error] {
	return func(yield func([]event.Event, error) bool) {
		for batch, err := range ev.reader.Batches() {
			if err == nil {
				err = ev.ctx.Err()
			}
			if err != nil {
				yield(nil, ev.in.damage(err))
				return
			}
			if !ev.seen {
				ev.seen, ev.first = true, batch[0].Time
			}
			ev.last = batch[len(batch)-1].Time
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// Version returns the format of the trace.
func (ev *Events) Version() raw.Version { return ev.reader.Version() }

// Stats returns what the trace has beside events.
func (ev *Events) Stats() trace.Stats { return ev.reader.Stats() }

// Span returns the times of the first and the last event so far; false when there was none.
func (ev *Events) Span() (first, last int64, ok bool) { return ev.first, ev.last, ev.seen }

// Wall reports whether times are since the Unix epoch. It is known once there were events. Traces tell the time of day from
// Go 1.25 on. In older formats times count from the start of the machine, but trace.Writer takes the Unix epoch: no machine
// has been up for decades.
func (ev *Events) Wall() bool { return ev.first >= wallEpoch }

// wallEpoch is a time that no trace with the time of day precedes.
var wallEpoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// errStop ends the reading of events without an error.
var errStop = errors.New("no more events are wanted")

// Each calls a function for each event, until it returns an error, which may be errStop for none.
func (ev *Events) Each(f func(*event.Event) error) error {
	for batch, err := range ev.Batches() {
		if err != nil {
			return err
		}
		for i := range batch {
			switch err := f(&batch[i]); err {
			case nil:
			case errStop:
				return nil
			default:
				return err
			}
		}
	}
	return nil
}
