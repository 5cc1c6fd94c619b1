package trace

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// WriterOptions configures a [Writer]. The zero value is suitable for most uses.
type WriterOptions struct {
	// Version is the format of the trace, which must be that of Go 1.22 or later. 0 means raw.Go123. Tools of earlier
	// releases cannot read it, tools of later releases can. From raw.Go123 on, the trace has the stacks of the goroutines
	// that existed when it began, and coroutines are created in the waiting state. From raw.Go125 on, it records the
	// wall-clock time.
	Version raw.Version

	// Generation is the time that one generation of the trace covers. 0 means DefaultGeneration. A truncated trace can be
	// read up to its last complete generation, and readers hold one generation in memory. Each generation begins with
	// the status of all goroutines, which takes about 15 bytes per goroutine.
	Generation time.Duration

	// Procs is the number of Ps of the program (GOMAXPROCS), or 0 if unknown. The trace then has no more Ps than that,
	// unless an event happened on a P with a higher ID.
	Procs int

	// Text writes the trace in the text format of package raw.
	Text bool

	// OmitOperations drops events of the kinds in event.KindsChannel and event.KindsLock, which have no equivalent in
	// traces. Otherwise they are written as log messages, see the package documentation.
	OmitOperations bool
}

// DefaultGeneration is how much time one generation covers, as in the traces of the Go runtime.
const DefaultGeneration = time.Second

// A Writer writes the events of one process as a Go execution trace. It is not safe for concurrent use.
type Writer struct {
	out  io.Writer
	opt  WriterOptions
	err  error
	text *wText // that out is, for text

	wModel
	tables  wTables
	samples wBatch

	gen      uint64 // the generation; 0 before the first event
	genBegin uint64 // a tick at which it had begun, before all of its events
	genEnd   uint64 // it ends when an event is as late as that
	want     uint64 // when the event that is being handled happened
	last     uint64 // of the last event that was written; times increase strictly
	begun    bool   // an event other than GoStatus has come
	closed   bool

	at        *wThread // of the last event that was written
	losses    uint64   // how often events were lost
	unmarked  uint64   // events whose loss the trace does not tell yet
	procsTold int      // Ps of which the trace tells

	gc       wGC
	gcSeq    uint64
	gcUntold bool        // this generation does not tell yet that a collection is under way
	stw      *wGoroutine // has stopped the world; it runs

	tasks map[uint64]bool // have begun

	held    event.Event // while holding; see arrange
	holding bool

	stats wStats
}

// wFirstGen is the number of the first generation.
const wFirstGen = 1

// wMaxTime is the last time that an event can have. What comes later is written right after it.
const wMaxTime = 1 << 62

// wGap is how many ticks are left free between generations. Readers put events of their own there.
const wGap = 4

// NewWriter returns a writer of a trace, whose header it writes. The trace is complete after Close.
func NewWriter(out io.Writer, opt WriterOptions) (*Writer, error) {
	switch {
	case opt.Version == 0:
		opt.Version = raw.Go123
	case !opt.Version.Valid() || opt.Version.V1():
		return nil, fmt.Errorf("a trace of %s cannot be written, of Go1.22 and later it can: %w", opt.Version, raw.ErrVersion)
	}
	switch {
	case opt.Generation == 0:
		opt.Generation = DefaultGeneration
	case opt.Generation < 0:
		return nil, fmt.Errorf("a generation cannot cover %v", opt.Generation)
	}
	w := &Writer{out: out, opt: opt, wModel: newWModel(), tables: newWTables(), tasks: map[uint64]bool{}}
	w.unused.prev, w.unused.next = &w.unused, &w.unused
	if opt.Text {
		w.text = newWText(out)
		w.out = w.text
	}
	w.output(fmt.Appendf(nil, "go 1.%d trace\x00\x00\x00", opt.Version))
	if w.err != nil {
		return nil, w.finish()
	}
	return w, nil
}

// finish ends what writes text, and returns the error of the trace.
func (w *Writer) finish() error {
	if w.text != nil {
		if err := w.text.finish(); err != nil {
			w.err = err
		}
	}
	return w.err
}

// errWriterClosed is returned for events that come after Close.
var errWriterClosed = errors.New("trace: write to a closed writer")

// Write adds an event to the trace, and keeps of it only the strings, stack and origin that it refers to; these must not
// change. Equal stacks and origins should be the same pointers, see event.Event: each pointer is written. Events come in
// their order, see event.Event. Nothing in an event makes the trace one that cannot be read: what contradicts the events
// before is repaired, and counted. An error is the one of the underlying writer, and is returned from then on.
func (w *Writer) Write(e *event.Event) error {
	switch {
	case w.closed:
		return errWriterClosed
	case w.err != nil:
		return w.err
	}
	w.stats.Events++
	w.arrange(e)
	return w.err
}

// accept takes an event in.
func (w *Writer) accept(e *event.Event) {
	w.advance(e)
	before := w.last
	w.handle(e)
	if w.unmarked != 0 || w.procsTold != w.nProcs || w.gcUntold {
		w.mark()
	}
	if w.last > before {
		w.noteMove(time.Duration(w.last - w.want))
	}
}

// noteMove counts how much later an event stands in the trace than it said.
func (w *Writer) noteMove(d time.Duration) {
	w.stats.MaxMove = max(w.stats.MaxMove, d)
	if d > wNoticedMove {
		w.stats.Moved++
	}
}

// wNoticedMove is how much later an event may be than it said without being counted as moved.
const wNoticedMove = time.Microsecond

// wNeedsG are the kinds about a goroutine.
const wNeedsG = (event.KindsGoroutine | event.KindsSyscall | event.KindsChannel | event.KindsLock | event.KindsUser) &^
	event.Kinds(1<<event.CPUSample)

// handle writes an event.
func (w *Writer) handle(e *event.Event) {
	if e.Kind < 64 && wNeedsG.Has(e.Kind) && (e.G == 0 || e.G >= wGuestID) {
		w.stats.Skipped[e.Kind]++
		return
	}
	switch e.Kind {
	case event.GoStart:
		w.goStart(e)
	case event.GoBlock:
		w.goBlock(e)
	case event.GoUnblock:
		w.goUnblock(e)
	case event.GoStop:
		w.goStop(e)
	case event.GoCreate:
		w.goCreate(e)
	case event.GoDestroy:
		w.goDestroy(e)
	case event.GoStatus:
		w.goStatus(e)
	case event.GoSyscallBegin:
		w.goSyscallBegin(e)
	case event.GoSyscallEnd:
		w.goSyscallEnd(e)
	case event.ChanMake, event.ChanSend, event.ChanReceive, event.ChanClose, event.Select, event.SemAcquire, event.SemRelease:
		w.operationLog(e)
	default:
		w.handleRare(e)
	}
}

// handleRare writes an event of the kinds that do not come often.
func (w *Writer) handleRare(e *event.Event) {
	switch e.Kind {
	case event.GCBegin:
		w.gcBegin(e)
	case event.GCEnd:
		w.gcEnd(e)
	case event.STWBegin:
		w.stwBegin(e)
	case event.STWEnd:
		w.stwEnd(e)
	case event.HeapAlloc:
		w.heapAlloc(e)
	case event.UserTaskBegin, event.UserTaskEnd:
		w.userTask(e)
	case event.UserRegionBegin, event.UserRegionEnd:
		w.userRegion(e)
	case event.UserLog:
		w.userLog(e)
	case event.CPUSample:
		w.cpuSample(e)
	case event.Lost:
		n := uint64(max(e.Value, 0))
		w.stats.Lost += n
		w.unmarked += n
		w.losses++
	case event.Exec:
		w.exec()
	default:
		w.stats.Skipped[e.Kind]++
	}
}

// mark writes what the writer itself has to tell, when the last event left a goroutine running with a P.
func (w *Writer) mark() {
	m := w.at
	if m == nil || m.g == nil || m.g.state != wRunning || m.p == nil || m.back != 0 {
		return
	}
	if w.unmarked != 0 {
		w.markLoss(m)
	}
	if w.procsTold != w.nProcs {
		w.markProcs(m)
	}
	if w.gcUntold {
		w.tellGC(m)
	}
}

// Close completes the trace. It does not close the underlying writer. After the first time it does nothing but to return
// the error of then.
func (w *Writer) Close() error {
	if w.closed {
		return w.err
	}
	w.closed = true
	w.letGo()
	if w.gen == 0 {
		w.beginGeneration(1)
	}
	w.want = w.last + 1
	w.settleAll()
	w.tellExecuting()
	if w.unmarked != 0 {
		m := w.user()
		w.markLoss(m)
		w.leave(m)
	}
	w.endGeneration()
	return w.finish()
}

// WriterStats counts what became of the events.
type WriterStats struct {
	Events      uint64 // number of events passed to Write
	Written     uint64 // number of events in the trace, including those that the Writer added
	Generations uint64 // number of complete generations
	Bytes       uint64 // size of the trace so far, in the wire format

	Lost uint64 // number of lost events, according to events of kind Lost

	// Bridged is the number of transitions that were added although no events contradict each other: for system calls
	// that are not observed, for goroutines that appeared after the first generation, and for goroutines that ended with
	// the program.
	Bridged uint64
	// Repaired is the number of transitions and ends of ranges that were added because events contradict each other, for
	// example after a loss.
	Repaired uint64
	// Found is the number of goroutines whose first event was neither GoStatus nor GoCreate.
	Found uint64
	// Goroutines is the number of goroutines in the trace, and Ended the number of those that end in it. Both can include
	// a goroutine that the Writer added, see the package documentation.
	Goroutines, Ended uint64
	// Alive is the number of goroutines that are alive as far as the Writer knows. It includes those whose end was lost.
	Alive uint64

	Cut uint64 // number of strings and stacks that were truncated to the maximum length in a trace

	// Moved is the number of events that are in the trace with a time more than one microsecond later than Event.Time,
	// because events keep their order and times in a trace increase. MaxMove is the largest such difference.
	Moved   uint64
	MaxMove time.Duration

	Logged  map[event.Kind]uint64 // events written as log messages because traces have no equivalent
	Skipped map[event.Kind]uint64 // events not written: because of OmitOperations, or because the kind is unknown, the goroutine is missing or the event is redundant
}

// wStats are the numbers of WriterStats that are counted on the way.
type wStats struct {
	WriterStats
	Logged, Skipped [256]uint64
}

// Stats returns the numbers so far.
func (w *Writer) Stats() WriterStats {
	s := w.stats.WriterStats
	s.Logged, s.Skipped = kindCounts(&w.stats.Logged), kindCounts(&w.stats.Skipped)
	s.Alive = uint64(len(w.goroutines))
	if w.goroutines[wGuestID] != nil {
		s.Alive--
	}
	return s
}

func kindCounts(counts *[256]uint64) map[event.Kind]uint64 {
	m := map[event.Kind]uint64{}
	for k, n := range counts {
		if n > 0 {
			m[event.Kind(k)] = n
		}
	}
	return m
}
