package memtrace

import (
	"context"
	"errors"
	"fmt"
)

// Sizes for [WithLimitBytes].
const (
	KiB int64 = 1 << 10
	MiB int64 = 1 << 20
	GiB int64 = 1 << 30
)

// ErrUnsupported says that allocations of this program cannot be traced. The error that wraps it says why.
var ErrUnsupported = errors.New("memtrace: allocations cannot be traced")

// ErrIncomplete says that the counts of a trace are too low. The error that wraps it says why.
var ErrIncomplete = errors.New("memtrace: allocations were not counted")

// A Context is the context of one trace. It is a [context.Context] that is also done when the trace passes a limit. All
// methods may be called by any goroutine, also after the trace has ended.
type Context interface {
	context.Context

	// Used returns what was allocated since the trace began: bytes, heap objects, and calls of the allocator. Bytes are those
	// of the size classes and pages that the objects take. Objects and calls differ only in what Add has added. After the end
	// of the trace the numbers no longer change.
	Used() (bytes, objects, calls int64)

	// Elements is like the number of objects, but counts arrays, and the memory of slices, by their elements. What the runtime
	// allocates without saying of what type counts as one element: strings, and the memory that append makes for elements
	// without pointers.
	Elements() int64

	// Add counts memory that is not on the Go heap, such as that of C code or of a mapped file. It counts towards the limits.
	// Negative numbers are ignored.
	Add(bytes, objects, calls int64)
}

// Trace calls f and counts what the calling goroutine allocates meanwhile. The counts include those of traces within f,
// whatever their contexts, and of goroutines started by [Go]. They include other goroutines only with [WithDescendants]. They
// do not include what the runtime allocates on a stack of its own, such as a goroutine's descriptor.
//
// The counts also apply to the trace that ctx, or a context that it is derived from, belongs to, if it has not ended.
//
// The first call of Trace in a process patches the allocator. Trace returns an error, and does not call f, if that is
// impossible (see [Supported]) or an option is invalid. Else it calls f. Then the error is nil, also if a limit was passed,
// or wraps [ErrIncomplete]: another tool, such as a debugger or an eBPF program, has a breakpoint where the allocator is
// patched.
func Trace(ctx context.Context, f func(ctx Context), options ...Option) (err error) {
	if err := enable(); err != nil {
		return err
	}
	before := pause()
	var o settings
	for _, option := range options {
		option(&o)
	}
	if o.err == nil && o.descendants {
		o.err = enableStarts()
	}
	if name := o.changed(); o.err == nil && name != "" {
		o.err = fmt.Errorf("%w: another tool has changed the code of %s", ErrUnsupported, name)
	}
	if o.err != nil {
		goroutines.swap(getg(), before)
		return o.err
	}
	t := newTrace(ctx, &o, before)
	defer func() {
		t.end(before)
		if name := o.changed(); name != "" {
			err = fmt.Errorf("%w: another tool has changed the code of %s", ErrIncomplete, name)
		}
	}()
	t.cell.attach()
	f(t)
	return err
}

// Go starts a goroutine that calls f. What it allocates counts towards the trace that ctx, or a context that it is derived
// from, belongs to. If there is none, Go is like the go statement. If the goroutine is still running when the trace ends, it
// counts only towards the traces around it that have not ended. If the calling goroutine is in a trace [WithDescendants], the
// new one also counts towards that.
func Go(ctx context.Context, f func()) {
	t, ok := fromContext(ctx)
	if !ok || t.ended.Load() {
		go f()
		return
	}
	into := heritage{t.within, t.gauges}
	if c := goroutines.cell(getg()); c != nil && c.starts != 0 {
		pause() // not to inherit twice
		defer goroutines.swap(getg(), c)
		into.addFrom(c)
	}
	go descendant(into, f)()
}

// FromContext returns the context of the trace that ctx, or a context that it is derived from, belongs to.
func FromContext(ctx context.Context) (Context, bool) {
	t, ok := fromContext(ctx)
	if !ok {
		return nil, false
	}
	return t, true
}

// Supported returns nil if allocations can be traced, else an error that wraps [ErrUnsupported]. Like [Trace], it patches the
// allocator when it is called first.
func Supported() error { return enable() }

// An Option configures a trace.
type Option func(*settings)

type settings struct {
	limits      [kinds]int64 // as given, plus one; 0: none
	descendants bool
	err         error
}

// changed returns the name of a function that the trace needs patched and that another tool has changed, or "".
func (s *settings) changed() string {
	name := changed(&allocation)
	if name == "" && s.descendants {
		name = changed(&starts)
	}
	return name
}

// WithLimitBytes sets the number of bytes that a trace may use. The trace passes the limit when it uses more. Of several limits
// of one kind the lowest applies.
func WithLimitBytes(n int64) Option { return withLimit(bytesUsed, n) }

// WithLimitObjects is like [WithLimitBytes] for the number of heap objects.
func WithLimitObjects(n int64) Option { return withLimit(objectsUsed, n) }

// WithLimitCalls is like [WithLimitBytes] for the number of calls of the allocator.
func WithLimitCalls(n int64) Option { return withLimit(callsUsed, n) }

// WithDescendants makes a trace also count the goroutines that its goroutines start with go statements, and those that these
// start. If such a goroutine is still running when the trace ends, the rest counts only towards the traces around it that
// have not ended, and so do the goroutines that it starts then.
//
// The first such trace in a process patches the function of the runtime that go statements call. If that is impossible, [Trace]
// returns an error that wraps [ErrUnsupported]. In stack traces, the goroutines begin with a function of this package.
//
// Goroutines that do not come from a go statement of a traced goroutine are not counted: those of [time.AfterFunc] and
// [iter.Pull], of the runtime, and of C code.
func WithDescendants() Option { return func(s *settings) { s.descendants = true } }

func withLimit(k kind, n int64) Option {
	return func(s *settings) {
		if n < 0 {
			s.err = fmt.Errorf("memtrace: limit of %d %s: a limit must not be negative", n, k)
			return
		}
		if n == maxLimit { // no count is larger
			return
		}
		if s.limits[k] == 0 || n+1 < s.limits[k] {
			s.limits[k] = n + 1
		}
	}
}

const maxLimit = 1<<63 - 1
