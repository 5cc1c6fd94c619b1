package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// soon is a deadline that only a test which fails reaches.
const soon = time.Minute

// span returns a finished span.
func span(n int) sdktrace.ReadOnlySpan {
	now := time.Unix(1_700_000_000, int64(n))
	return tracetest.SpanStub{
		Name: fmt.Sprintf("span %d", n), SpanKind: trace.SpanKindServer, StartTime: now, EndTime: now.Add(time.Millisecond),
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{0: 1, 6: byte(n >> 8), 7: byte(n)}, TraceFlags: trace.FlagsSampled,
		}),
	}.Snapshot()
}

// A fake is an exporter whose exports a test controls.
type fake struct {
	export func(ctx context.Context, spans []sdktrace.ReadOnlySpan) error

	mu     sync.Mutex
	sizes  []int
	names  []string
	closed int
}

func (f *fake) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if f.export != nil {
		if err := f.export(ctx, spans); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes = append(f.sizes, len(spans))
	for _, s := range spans {
		f.names = append(f.names, s.Name())
	}
	return nil
}

func (f *fake) Shutdown(context.Context) error { f.closed++; return nil }
func (f *fake) String() string                 { return "fake" }

// A logBook is what a queue has logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, nil))
}

func (b *logBook) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), part)
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

func closeQueue(t *testing.T, q *Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := q.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestQueueOrder(t *testing.T) {
	const spans, size = 1000, 64
	f := &fake{}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Size: 2 * spans, Batch: size, Delay: time.Hour})
	for n := range spans {
		q.Add(span(n))
	}
	closeQueue(t, q)
	for n, name := range f.names {
		if name != fmt.Sprintf("span %d", n) {
			t.Fatalf("%d is %s", n, name)
		}
	}
	if got, want := q.Stats(), (Stats{Exported: spans}); got != want || len(f.names) != spans {
		t.Errorf("%+v, %d received", got, len(f.names))
	}
	for i, n := range f.sizes {
		if n != size && i < len(f.sizes)-1 {
			t.Errorf("batches of %v spans", f.sizes)
		}
	}
	if f.closed != 1 {
		t.Errorf("shut down %d times", f.closed)
	}
	q.Add(span(0))
	if got := q.Stats(); got.Dropped != 1 || got.Added() != spans+1 {
		t.Errorf("after Close: %+v", got)
	}
	closeQueue(t, q)
	if f.closed != 1 {
		t.Errorf("shut down %d times", f.closed)
	}
}

// TestQueueDelay adds fewer spans than a batch has.
func TestQueueDelay(t *testing.T) {
	f := &fake{}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Delay: 5 * time.Millisecond})
	defer closeQueue(t, q)
	for n := range 3 {
		q.Add(span(n))
		until(t, "the delay", func() bool { return q.Stats().Exported == uint64(n)+1 })
	}
}

func TestQueueForceFlush(t *testing.T) {
	var failing error
	f := &fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error { return failing }}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Delay: time.Hour})
	defer closeQueue(t, q)
	ctx := context.Background()
	if err := q.ForceFlush(ctx); err != nil {
		t.Error(err)
	}
	q.Add(span(1))
	if err := q.ForceFlush(ctx); err != nil || q.Stats() != (Stats{Exported: 1}) {
		t.Error(err, q.Stats())
	}
	failing = errors.New("down")
	q.Add(span(2))
	if err := q.ForceFlush(ctx); err == nil || err.Error() != "1 span not exported: down" || q.Stats() != (Stats{Exported: 1, Failed: 1}) {
		t.Error(err, q.Stats())
	}
	if err := q.ForceFlush(ctx); err != nil {
		t.Error("a failure before:", err)
	}
	failing = nil
}

// TestQueueOverflow blocks the exporter.
func TestQueueOverflow(t *testing.T) {
	const size, batch, extra = 100, 10, 50
	release := make(chan struct{})
	f := &fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error { <-release; return nil }}
	var log logBook
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Size: size, Batch: batch, Delay: time.Hour, Log: log.log()})
	for n := range size + extra {
		q.Add(span(n))
		if s := q.Stats(); s.Added() != uint64(n)+1 || s.Queued > size {
			t.Fatalf("%+v after %d", s, n+1)
		}
	}
	if got, want := q.Stats(), (Stats{Queued: size, Dropped: extra}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(q.waiting.items) > size {
		t.Errorf("room for %d spans", len(q.waiting.items))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := q.ForceFlush(ctx); err == nil || err.Error() != "100 spans not exported: context deadline exceeded" {
		t.Error(err)
	}
	close(release)
	if err := q.ForceFlush(context.Background()); err != nil {
		t.Error(err)
	}
	if got, want := q.Stats(), (Stats{Exported: size, Dropped: extra}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if log.count("dropping spans") != 1 || log.count("room again") != 1 {
		t.Error(log.text.String())
	}
	closeQueue(t, q)
}

// TestQueueDown lets the exporter fail twice for several batches.
func TestQueueDown(t *testing.T) {
	var mu sync.Mutex
	var down error
	set := func(err error) { mu.Lock(); down = err; mu.Unlock() }
	f := &fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error { mu.Lock(); defer mu.Unlock(); return down }}
	other := &fake{}
	var log logBook
	q := NewQueue([]sdktrace.SpanExporter{f, other}, QueueOptions{Batch: 5, Delay: time.Hour, Log: log.log()})
	const round = 20
	var added uint64
	for cycle := range 2 {
		for _, err := range []error{errors.New("down\nhard"), nil} {
			set(err)
			for n := range round {
				q.Add(span(n))
				if added++; q.Stats().Added() != added {
					t.Fatalf("%+v after %d", q.Stats(), added)
				}
			}
			if flush := q.ForceFlush(context.Background()); (flush != nil) != (err != nil) {
				t.Error(cycle, flush)
			}
		}
	}
	if got, want := q.Stats(), (Stats{Exported: 2 * round, Failed: 2 * round}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(other.names) != 4*round {
		t.Errorf("the other exporter has %d spans", len(other.names))
	}
	if log.count(`msg="cannot export spans" exporter=fake error="down; hard"`) != 2 || log.count(`msg="exporting spans again" exporter=fake lost=20`) != 2 {
		t.Error(log.text.String())
	}
	closeQueue(t, q)
}

// TestQueueTimeout requires that the timeout ends an export.
func TestQueueTimeout(t *testing.T) {
	f := &fake{export: func(ctx context.Context, _ []sdktrace.ReadOnlySpan) error { <-ctx.Done(); return ctx.Err() }}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Timeout: time.Millisecond})
	q.Add(span(1))
	until(t, "a failure", func() bool { return q.Stats() == Stats{Failed: 1} })
	closeQueue(t, q)
}

// TestQueueCloseDeadline closes a queue whose exporter does not end before the deadline.
func TestQueueCloseDeadline(t *testing.T) {
	began := make(chan struct{}, 1)
	f := &fake{export: func(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Batch: 2, Delay: time.Hour})
	for n := range 5 {
		q.Add(span(n))
	}
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if err := q.Close(ctx); err == nil || err.Error() != "5 spans not exported: context canceled" {
		t.Error(err)
	}
	if got, want := q.Stats(), (Stats{Failed: 2, Dropped: 3}); got != want || f.closed != 1 {
		t.Errorf("%+v, want %+v; shut down %d times", got, want, f.closed)
	}
}

// TestQueueCloseStuck closes a queue whose exporter ignores its context.
func TestQueueCloseStuck(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	f := &fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error { <-release; return nil }}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Batch: 2, Delay: time.Hour})
	for n := range 3 {
		q.Add(span(n))
	}
	until(t, "the export", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.batch) == 2 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := q.Close(ctx); err == nil || err.Error() != "2 spans not exported: the exporter does not return" {
		t.Error(err)
	}
	if got, want := q.Stats(), (Stats{Queued: 2, Dropped: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestQueueConcurrent adds, flushes and closes at the same time.
func TestQueueConcurrent(t *testing.T) {
	const adders, each = 4, 2000
	n := 0
	f := &fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error {
		if n++; n%3 == 0 {
			return errors.New("sometimes")
		}
		return nil
	}}
	q := NewQueue([]sdktrace.SpanExporter{f}, QueueOptions{Size: 300, Batch: 7})
	var all sync.WaitGroup
	for range adders {
		all.Go(func() {
			for n := range each {
				q.Add(span(n))
				if n%500 == 0 {
					_ = q.ForceFlush(context.Background()) // fails because batches fail
				}
			}
		})
	}
	all.Go(func() {
		until(t, "spans", func() bool { return q.Stats().Added() > adders*each/2 })
		_ = q.Close(context.Background())
	})
	all.Wait()
	got := q.Stats()
	if got.Added() != adders*each || got.Queued != 0 || got.Exported != uint64(len(f.names)) {
		t.Errorf("%+v; %d received", got, len(f.names))
	}
}

func TestFailures(t *testing.T) {
	for text, want := range map[string]int{
		"down": 10,
		"traces export: OTLP partial success: empty message (3 spans rejected)":              3,
		"traces export: OTLP partial success: two\nlines (0 spans rejected)":                 0,
		"failed to upload metrics: OTLP partial success: x (4 metric data points rejected)":  4,
		"OTLP partial success: x (5 log records rejected)":                                   5,
		"rpc error: OTLP partial success: x (5 log records rejected)":                        10,
		"traces export: OTLP partial success: x (99 spans rejected)":                         10,
		"traces export: OTLP partial success: x (3 spans rejected)\nrpc error":               10,
		"traces export: OTLP partial success: x (99999999999999999999999999 spans rejected)": 10,
	} {
		if got := Rejected(errors.New(text), 10); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if Rejected(nil, 10) != 0 {
		t.Error("no error")
	}
}

func BenchmarkQueueAdd(b *testing.B) {
	q := NewQueue([]sdktrace.SpanExporter{&fake{export: func(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("not kept") }}}, QueueOptions{})
	s := span(1)
	b.ReportAllocs()
	for b.Loop() {
		q.Add(s)
	}
	_ = q.Close(context.Background())
}

func TestSetLog(t *testing.T) {
	var log logBook
	SetLog(log.log())
	defer SetLog(slog.New(slog.DiscardHandler))
	otel.Handle(errors.New("two\nlines"))
	if log.count(`error="two; lines"`) != 1 {
		t.Error(log.text.String())
	}
}
