package tracefile

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// Copied is what ToText or ToWire has done.
type Copied struct {
	Version raw.Version
	Events  int64
}

// ToText writes a trace of the wire format as text. exact keeps the widths of numbers, so that ToWire makes the same bytes.
func ToText(ctx context.Context, out *Output, in *Input, exact bool) (Copied, error) {
	if err := in.NeedWire(); err != nil {
		return Copied{}, err
	}
	r, err := raw.NewReader(interruptible{ctx, in})
	if err != nil {
		return Copied{}, in.noTrace(err)
	}
	r.KeepWidths = exact
	w, err := raw.NewTextWriter(out, r.Version())
	if err != nil {
		return Copied{}, err
	}
	return copyAll(out, in, w, r)
}

// ToWire makes a trace of the wire format of text. Sizes of batches are computed; exact takes them as they are, and widths
// of numbers.
func ToWire(ctx context.Context, out *Output, in *Input, exact bool) (Copied, error) {
	if err := in.NeedText(); err != nil {
		return Copied{}, err
	}
	r, err := raw.NewTextReader(interruptible{ctx, in})
	if err != nil {
		return Copied{}, in.noTrace(err)
	}
	r.KeepWidths = exact
	w, err := raw.NewWriter(out, r.Version())
	if err != nil {
		return Copied{}, err
	}
	w.RecomputeSizes = !exact
	return copyAll(out, in, w, r)
}

// rawWriter is a raw.Writer or a raw.TextWriter.
type rawWriter interface {
	raw.EventWriter
	Close() error
}

func copyAll(out *Output, in *Input, w rawWriter, r raw.EventReader) (Copied, error) {
	n, err := raw.Copy(w, r)
	done := Copied{r.Version(), n}
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	switch {
	case out.Err() != nil:
		return done, out.Err()
	case err != nil:
		return done, in.damage(err)
	}
	return done, nil
}

// A DamageError says that an input is not what a trace has to be, from some place on. What was made of what precedes is
// good.
type DamageError struct {
	Input string
	Err   error
}

// Error names the input and what is wrong in it.
func (e *DamageError) Error() string {
	var syntax *raw.SyntaxError
	switch {
	case errors.As(e.Err, &syntax) && errors.Is(e.Err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("%s is truncated: %v", e.Input, e.Err)
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return fmt.Sprintf("%s is truncated", e.Input)
	}
	return fmt.Sprintf("%s: %v", e.Input, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// damage returns the error for an input that cannot be read on.
func (in *Input) damage(err error) error {
	var memory *trace.MemoryError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &memory):
		return fmt.Errorf("%s: %w", in.Name, err)
	case plainCause(err) != err:
		return fmt.Errorf("reading %s: %w", in.Name, plainCause(err))
	}
	return &DamageError{in.Name, err}
}

// noTrace returns the error for an input whose header cannot be read: nothing can be made of it.
func (in *Input) noTrace(err error) error {
	if err = in.damage(err); IsDamage(err) {
		return errors.New(err.Error())
	}
	return err
}

// IsDamage reports whether an error is that an input is damaged, and what was made of it until then is good.
func IsDamage(err error) bool {
	var damage *DamageError
	return errors.As(err, &damage)
}

// interruptible is a reader that ends with a context.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (r interruptible) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}
