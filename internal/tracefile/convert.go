package tracefile

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/gostate"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Converted is what Convert or a merge has done.
type Converted struct {
	Version     raw.Version // of the input
	Read        uint64      // events
	Written     uint64      // events; those included that tell the state in which a selection begins
	First, Last int64       // times of the first and the last event that were written
	Wall        bool        // they are since the Unix epoch
	Notes       []string    // what the user should know
}

// Length returns how much time lies between the first and the last event that were written.
func (c *Converted) Length() time.Duration { return time.Duration(c.Last - c.First) }

// ConvertOptions say how events are written. Convert itself sets what follows from the input: Version, Generation, Kinds, Wall
// and Begin.
type ConvertOptions struct {
	Format *export.Format
	export.Options
}

// create returns the sink.
func (o *ConvertOptions) create(w io.Writer) (export.Sink, error) {
	return o.Format.New(w, ofTrace(o.Options))
}

// ofTrace completes options for the events of a trace of a version. A Go trace keeps the version, so that nothing is lost
// and the same tools can read it.
//
// The runtime reports goroutines that do nothing when a generation ends, after a second. A generation of the Writer is
// longer, so that this report is in its first one, where the Writer can state that they were there before.
func ofTrace(opt export.Options) export.Options {
	opt.Kinds, opt.Generation = event.KindsTrace, 2*trace.DefaultGeneration
	return opt
}

// notes returns what a closed sink reports.
func notes(s export.Sink) []string {
	if n, ok := s.(export.Noter); ok {
		return n.Notes()
	}
	return nil
}

// Convert writes the events of an input in some format, those that a selection chooses.
// After a DamageError the output is complete and has what precedes the damage.
func Convert(ctx context.Context, out *Output, in *Input, opt ConvertOptions, sel *Selection) (Converted, error) {
	chosen, err := search(ctx, in, sel)
	if err != nil {
		return Converted{}, err
	}
	ev, err := in.Events(ctx)
	if err != nil {
		return Converted{}, err
	}
	c := &converter{ev: ev, out: out, opt: opt, sel: sel, chosen: chosen}
	c.done.Version = ev.Version()
	err = c.run()
	return c.done, err
}

// search reads an input to find out which goroutines a selection chooses.
func search(ctx context.Context, in *Input, sel *Selection) (func(g uint64) bool, error) {
	listed := func(g uint64) bool { return len(sel.Goroutines) == 0 || slices.Contains(sel.Goroutines, g) }
	if !sel.searches() {
		return listed, nil
	}
	if in.path == Stdin {
		return nil, fmt.Errorf("cannot filter standard input by function or reason: the trace is read twice; use a file")
	}
	again, err := Open(ctx, in.path, nil)
	if err != nil {
		return nil, err
	}
	defer again.Close()
	again.MaxMemory = in.MaxMemory
	ev, err := again.Events(ctx)
	if err != nil {
		return nil, err
	}
	var f *finder
	err = ev.Each(func(e *event.Event) error {
		if f == nil {
			w, err := sel.window(ev.first, ev.Wall())
			if err != nil {
				return err
			}
			f = newFinder(sel, w)
		}
		return f.take(e)
	})
	if _, damaged := err.(*DamageError); err != nil && !damaged { // it comes again
		return nil, err
	}
	if f == nil {
		return listed, nil
	}
	if f.before != nil {
		f.begin()
	}
	return func(g uint64) bool { return listed(g) && f.chooses(g) }, nil
}

// A converter is one run of Convert.
type converter struct {
	ev     *Events
	out    *Output
	opt    ConvertOptions
	sel    *Selection
	chosen func(g uint64) bool

	sink   export.Sink
	window window
	before *roster // of chosen goroutines before the window; nil from then on
	some   bool    // there was something about a goroutine
	done   Converted
}

func (c *converter) run() error {
	err := c.ev.Each(c.take)
	if _, damaged := err.(*DamageError); err != nil && !damaged {
		c.abandon()
		return c.outputError(err)
	}
	if closeErr := c.finish(err != nil); closeErr != nil {
		return c.outputError(closeErr)
	}
	return err
}

// outputError prefers the error of the output, which names the file.
func (c *converter) outputError(err error) error {
	if outErr := c.out.Err(); outErr != nil {
		return outErr
	}
	return err
}

// take takes an event of the input.
func (c *converter) take(e *event.Event) error {
	c.done.Read++
	if c.sink == nil {
		if err := c.begin(); err != nil {
			return err
		}
	}
	if e.Time < c.window.from {
		if c.wants(e) {
			c.before.apply(e)
		}
		return nil
	}
	if c.before != nil {
		if err := c.tellStates(); err != nil {
			return err
		}
	}
	switch {
	case e.Time > c.window.to:
		return errStop
	case !c.wants(e):
		return nil
	}
	return c.write(e)
}

// begin makes the sink, at the first event.
func (c *converter) begin() error {
	var err error
	begin, wall := c.ev.first, c.ev.Wall()
	if c.window, err = c.sel.window(begin, wall); err != nil {
		return err
	}
	if c.window.from > begin {
		c.before = newRoster()
	}
	c.done.Wall = wall
	c.opt.Version, c.opt.Wall, c.opt.Begin = c.ev.Version(), wall, begin
	c.sink, err = c.opt.create(c.out)
	return err
}

// wants reports whether an event is about the whole program or a goroutine that is chosen.
func (c *converter) wants(e *event.Event) bool {
	if !c.sel.byGoroutine() {
		return true
	}
	if e.G == 0 || wholeProgram.Has(e.Kind) {
		return e.Kind != event.CPUSample
	}
	return c.chosen(e.G)
}

// wholeProgram are the kinds that are about the whole program, whoever did it.
var wholeProgram = gostate.OfProgram().Union(event.GroupStream.Kinds())

// tellStates tells the states in which the window finds the goroutines.
func (c *converter) tellStates() error {
	r := c.before
	c.before = nil
	return r.each(c.window.from, c.write)
}

func (c *converter) write(e *event.Event) error {
	if c.done.Written == 0 {
		c.done.First = e.Time
	}
	c.done.Written++
	c.done.Last = e.Time
	c.some = c.some || e.G != 0 && !wholeProgram.Has(e.Kind)
	return c.sink.Write(e)
}

// finish completes the output.
func (c *converter) finish(damaged bool) error {
	switch {
	case c.sink == nil: // there was no event
		c.opt.Version = c.ev.Version()
		sink, err := c.opt.create(c.out)
		if err != nil {
			return err
		}
		c.sink = sink
	case c.before != nil && !damaged:
		c.abandon()
		return fmt.Errorf("empty time range: %s lasts %v and ends before %s", c.ev.in.Name, time.Duration(c.ev.last-c.ev.first), c.sel.From.text)
	}
	if c.sel.byGoroutine() && !c.some && !damaged {
		c.abandon()
		return fmt.Errorf("no goroutine in %s matches the filter", c.ev.in.Name)
	}
	if err := c.sink.Close(); err != nil {
		return err
	}
	c.done.Notes = notes(c.sink)
	return nil
}

// abandon ends what goes on in a sink whose output is of no use.
func (c *converter) abandon() {
	if c.sink != nil {
		c.sink.Close() // the error is known, or of no interest
	}
}
