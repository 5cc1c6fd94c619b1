package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/english"
)

const (
	defaultBatch   = 512
	defaultDelay   = 5 * time.Second
	defaultTimeout = 30 * time.Second

	// grace is how long Close waits for an exporter to return after its context has ended.
	grace = time.Second
)

// QueueOptions configures a [Queue] or [Batches].
type QueueOptions struct {
	Size    int           // maximum number of items, including those that are being exported; 0 means DefaultQueueSize
	Batch   int           // maximum number of items in one export; 0 means 512
	Delay   time.Duration // how long an item waits for a batch to become complete
	Timeout time.Duration // of one exporter for one batch, with its retries; 0 means 30s

	// Log receives a message when an exporter begins to fail, when it succeeds again, and when the queue begins and stops to drop
	// items. Nil means no messages.
	Log *slog.Logger
}

// Stats are the counts of [Batches]. Each item that was added is in exactly one of them.
type Stats struct {
	Queued   int    // waiting, or being exported
	Exported uint64 // each exporter has accepted the item
	Failed   uint64 // an exporter has returned an error for the item, or the back end has rejected it
	Dropped  uint64 // the queue was full or closed, or its deadline for closing has passed
}

// Added returns the number of items that were added.
func (s Stats) Added() uint64 { return uint64(s.Queued) + s.Exported + s.Failed + s.Dropped }

// An Exporter exports the items of a batch. If its error is about a part of them, [Rejected] returns how many.
type Exporter[T any] interface {
	Export(context.Context, []T) error
	Shutdown(context.Context) error
}

// A Noun is what the items of [Batches] are called in messages.
type Noun struct {
	One, Many string
	Variable  string // environment variable with the size of the queue; empty if there is none
}

// Batches exports items in batches. It replaces the batch processors of the OpenTelemetry SDK, which do not return how many items
// they drop.
//
// Each batch is passed to each exporter, one after the other. A batch is not repeated after an exporter has returned an
// error, because the exporters retry by themselves. A queue whose exporters are slow or fail becomes full and drops new
// items until there is room again.
type Batches[T any] struct {
	noun      Noun
	opt       QueueOptions
	exporters []exporter[T]
	ctx       context.Context // of exports
	abort     context.CancelFunc
	wake      chan struct{} // has room for one: run is to examine the state
	done      chan struct{} // closed when run has returned
	closing   sync.Once
	closeErr  error

	mu       sync.Mutex
	waiting  ring[T]
	batch    []T    // being exported
	accepted uint64 // items that had room
	taken    uint64 // of those, how many were taken for a batch or dropped
	due      uint64 // how many are to be taken even if their batch is not complete
	exported uint64
	failed   uint64
	refused  uint64 // dropped without having been accepted
	expired  uint64 // dropped because the deadline for closing has passed
	lastErr  error
	closed   bool
	progress chan struct{} // closed and replaced when a batch ends

	full     bool   // drops were reported; used by run alone
	reported uint64 // the value of refused when run last compared it
}

// An exporter is an exporter of a queue with its state.
type exporter[T any] struct {
	Exporter[T]
	health *Health
	note   *string // the last message of a back end that has accepted all items
}

// NewBatches returns a queue that exports to the exporters until it is closed, and then shuts them down. An exporter with a String
// method is called by that name in messages.
func NewBatches[T any](noun Noun, exporters []Exporter[T], opt QueueOptions) *Batches[T] {
	opt.Size = cmp.Or(opt.Size, DefaultQueueSize)
	opt.Batch = min(cmp.Or(opt.Batch, defaultBatch), opt.Size)
	opt.Timeout = cmp.Or(opt.Timeout, defaultTimeout)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	q := &Batches[T]{
		noun:     noun,
		opt:      opt,
		waiting:  ring[T]{limit: opt.Size},
		batch:    make([]T, 0, opt.Batch),
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		progress: make(chan struct{}),
	}
	q.ctx, q.abort = context.WithCancel(context.Background())
	for _, e := range exporters {
		q.exporters = append(q.exporters, exporter[T]{e, NewHealth(noun.Many, opt.Log.With("exporter", nameOf(e))), new(string)})
	}
	go q.run()
	return q
}

// nameOf returns the name of an exporter.
func nameOf(e any) string {
	if s, ok := e.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", e)
}

// Failing returns since when an exporter fails, and its last error in one line. ok is false if no exporter fails.
func (q *Batches[T]) Failing() (since time.Time, err string, ok bool) {
	for _, e := range q.exporters {
		if since, err, ok = e.health.Failing(); ok {
			return since, err, true
		}
	}
	return time.Time{}, "", false
}

// Add adds an item, or drops it if the queue is full or closed. It reports whether the item was added. It does not block.
func (q *Batches[T]) Add(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.waiting.n+len(q.batch) >= q.opt.Size {
		q.refused++
		return false
	}
	q.waiting.push(item)
	q.accepted++
	if q.waiting.n == 1 || q.waiting.n == q.opt.Batch {
		q.signal()
	}
	return true
}

// Stats returns the counts.
func (q *Batches[T]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{Queued: q.waiting.n + len(q.batch), Exported: q.exported, Failed: q.failed, Dropped: q.refused + q.expired}
}

// ForceFlush exports the items that were added before the call. The error says how many of them were not exported in time, or
// how many failed meanwhile.
func (q *Batches[T]) ForceFlush(ctx context.Context) error {
	q.mu.Lock()
	target, failed, expired := q.accepted, q.failed, q.expired
	q.due = max(q.due, target)
	q.signal()
	defer q.mu.Unlock()
	for {
		settled := q.exported + q.failed + q.expired
		if settled >= target {
			return q.since(failed, expired)
		}
		progress := q.progress
		q.mu.Unlock()
		var err error
		select {
		case <-progress:
		case <-ctx.Done():
			err = ctx.Err()
		}
		q.mu.Lock()
		if err != nil {
			return fmt.Errorf("%s not exported: %w", english.Count(target-min(target, q.exported+q.failed+q.expired), q.noun.One), err)
		}
	}
}

// since returns an error about the items that failed or expired after there were as many as given.
func (q *Batches[T]) since(failed, expired uint64) error {
	n := q.failed - failed + q.expired - expired
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%s not exported: %w", english.Count(n, q.noun.One), cmp.Or(q.lastErr, context.DeadlineExceeded))
}

// Close exports the items that were added, until ctx ends, and shuts the exporters down. Items that are not exported by
// then are dropped, and so are items that are added after Close. The error says how many items failed or were dropped
// meanwhile. Further calls return the same error.
func (q *Batches[T]) Close(ctx context.Context) error {
	q.closing.Do(func() { q.closeErr = q.close(ctx) })
	return q.closeErr
}

func (q *Batches[T]) close(ctx context.Context) error {
	q.mu.Lock()
	failed, expired := q.failed, q.expired
	q.closed, q.due = true, math.MaxUint64
	q.signal()
	q.mu.Unlock()
	defer q.abort()
	if err := q.wait(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	err := q.since(failed, expired)
	q.mu.Unlock()
	for _, e := range q.exporters {
		// A shutdown after the deadline returns the error of ctx.
		if shutdown := e.Shutdown(ctx); err == nil && ctx.Err() == nil && shutdown != nil {
			err = fmt.Errorf("cannot shut down the exporter of %s: %w", q.noun.Many, shutdown)
		}
	}
	return err
}

// wait waits until run has returned. When ctx ends, it makes run drop what is left.
func (q *Batches[T]) wait(ctx context.Context) error {
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	q.expire()
	q.mu.Unlock()
	q.abort()
	select {
	case <-q.done:
		return nil
	case <-time.After(grace):
		return fmt.Errorf("%s not exported: the exporter does not return", english.Count(q.Stats().Queued, q.noun.One))
	}
}

// expire drops all items that wait.
func (q *Batches[T]) expire() {
	n := uint64(q.waiting.n)
	q.waiting = ring[T]{limit: q.opt.Size}
	q.taken += n
	q.expired += n
	q.advance()
}

// advance wakes up the callers of ForceFlush.
func (q *Batches[T]) advance() {
	close(q.progress)
	q.progress = make(chan struct{})
}

// signal makes run examine the state.
func (q *Batches[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run exports batches until the queue is closed and empty.
func (q *Batches[T]) run() {
	defer close(q.done)
	timer := time.NewTimer(q.opt.Delay)
	timer.Stop()
	armed := false
	for {
		select {
		case <-q.wake:
		case <-timer.C:
			armed = false
			q.mu.Lock()
			q.due = max(q.due, q.accepted)
			q.mu.Unlock()
		}
		for batch := q.take(); len(batch) > 0; batch = q.take() {
			q.export(batch)
		}
		q.mu.Lock()
		waiting, closed := q.waiting.n > 0, q.closed
		q.mu.Unlock()
		switch {
		case waiting && !armed:
			timer.Reset(q.opt.Delay)
			armed = true
		case !waiting && closed:
			timer.Stop()
			return
		}
	}
}

// take returns the next batch, which is empty if no item is due.
func (q *Batches[T]) take() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.n < q.opt.Batch && q.taken >= q.due {
		return nil
	}
	q.batch = q.waiting.take(q.batch)
	q.taken += uint64(len(q.batch))
	return q.batch
}

// export passes a batch to the exporters and counts its items.
func (q *Batches[T]) export(batch []T) {
	failed := 0
	var lastErr error
	for _, e := range q.exporters {
		ctx, cancel := Within(q.ctx, q.opt.Timeout)
		err := e.Export(ctx, batch)
		cancel()
		n := Rejected(err, len(batch))
		switch {
		case n > 0:
			e.health.Failed(err, n)
			lastErr = err
		case err != nil && *e.note != err.Error():
			*e.note = err.Error()
			e.health.log.Warn("the back end accepts "+q.noun.Many+" with a message", "message", oneLine(err))
			fallthrough
		default:
			e.health.Succeeded()
		}
		failed = max(failed, n)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.exported += uint64(len(batch) - failed)
	q.failed += uint64(failed)
	if lastErr != nil {
		q.lastErr = errors.New(oneLine(lastErr))
	}
	clear(q.batch)
	q.batch = q.batch[:0]
	q.advance()
	q.reportDrops()
}

// reportDrops reports that the queue drops items since the last batch, or that it does not any more.
func (q *Batches[T]) reportDrops() {
	if q.closed {
		return
	}
	dropping := q.refused > q.reported
	switch {
	case dropping && !q.full:
		how := ""
		if q.noun.Variable != "" {
			how = " (" + q.noun.Variable + ")"
		}
		q.opt.Log.Warn("the queue of "+q.noun.Many+" is full: dropping "+q.noun.Many+how, "size", q.opt.Size)
	case !dropping && q.full:
		q.opt.Log.Info("the queue of "+q.noun.Many+" has room again", "dropped", q.refused)
	}
	q.full, q.reported = dropping, q.refused
}

// rejected finds the number of items in the error for a request that the back end has accepted in part. The SDK has no type
// for it that other modules can use.
var rejected = regexp.MustCompile(`(?s)^(?:traces export: |failed to upload metrics: )?OTLP partial success: .*\((\d+) [a-z ]+ rejected\)$`)

// Rejected returns how many items of a batch the error of an exporter is about.
func Rejected(err error, batch int) int {
	if err == nil {
		return 0
	}
	if m := rejected.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n >= 0 {
			return min(n, batch)
		}
	}
	return batch
}

// A ring is a first-in first-out list that grows up to a limit.
type ring[T any] struct {
	limit int
	items []T
	first int
	n     int
}

// push appends a span. There must be room for it.
func (r *ring[T]) push(item T) {
	if r.n == len(r.items) {
		const least = 64
		larger := make([]T, min(max(2*r.n, least), r.limit))
		copied := copy(larger, r.items[r.first:])
		copy(larger[copied:], r.items[:r.first])
		r.items, r.first = larger, 0
	}
	r.items[(r.first+r.n)%len(r.items)] = item
	r.n++
}

// take moves the first items to the end of a list, up to the capacity of the list.
func (r *ring[T]) take(list []T) []T {
	for r.n > 0 && len(list) < cap(list) {
		list = append(list, r.items[r.first])
		var none T
		r.items[r.first] = none
		r.first = (r.first + 1) % len(r.items)
		r.n--
	}
	return list
}
