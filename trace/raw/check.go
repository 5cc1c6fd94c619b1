package raw

import (
	"errors"
	"fmt"
)

// errClosed is returned for a use of a writer that was closed.
var errClosed = errors.New("trace/raw: writer is closed")

// check returns the code of an event that is to be written, or what makes it impossible to write it so that it can be
// read again.
func (f *format) check(ev *Event) (*code, error) {
	c := &f.codes[f.first[ev.Type]]
	if c.plain && len(ev.Args) == int(c.args) && ev.Version == f.version && len(ev.Frames)|len(ev.Data) == 0 {
		return c, nil
	}
	return c, f.checkAll(ev, c)
}

// checkAll is the part of check that is needed less often.
func (f *format) checkAll(ev *Event, c *code) error {
	switch {
	case ev.Version != f.version:
		return fmt.Errorf("%s event in a %s trace: %w", ev.Version, f.version, ErrVersion)
	case c.spec == nil:
		return fmt.Errorf("%s has no event type %d", f.version, ev.Type)
	case len(ev.Args) != int(c.args):
		return fmt.Errorf("%s with %d arguments, want %d", c.spec.Name, len(ev.Args), c.args)
	case len(ev.Frames) > 0 && !c.spec.IsStack:
		return fmt.Errorf("%s with stack frames", c.spec.Name)
	case len(ev.Data) > 0 && !c.spec.HasData:
		return fmt.Errorf("%s with data", c.spec.Name)
	case len(ev.Frames) > MaxFrames:
		return fmt.Errorf("%s: %w", c.spec.Name, tooMany("frames", uint64(len(ev.Frames)), MaxFrames))
	case len(ev.Data) > MaxData:
		return fmt.Errorf("%s: %w", c.spec.Name, tooMany("bytes of data", uint64(len(ev.Data)), MaxData))
	case c.spec.IsStack && ev.Args[c.args-1] != uint64(len(ev.Frames)):
		return fmt.Errorf("%s with %d frames, but nframes is %d", c.spec.Name, len(ev.Frames), ev.Args[c.args-1])
	}
	return nil
}
