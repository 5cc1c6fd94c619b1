package writer

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// Options configures a [Writer]. Package trace has the same struct for its users, and documents the fields there.
type Options struct {
	Version        raw.Version
	Generation     time.Duration
	Procs          int
	Text           bool
	OmitOperations bool
}

// DefaultGeneration is the default of Options.Generation.
const DefaultGeneration = time.Second

// A Writer writes the events of one process as a Go execution trace. It is not safe for concurrent use.
type Writer struct {
	out  io.Writer
	opt  Options
	err  error
	text *textOutput // that out is, for text

	model
	tables  tables
	samples batch

	gen      uint64 // the generation; 0 before the first event
	genBegin uint64 // a tick at which it had begun, before all of its events
	genEnd   uint64 // it ends when an event is as late as that
	want     uint64 // when the event that is being handled happened
	last     uint64 // of the last event that was written; times increase strictly
	begun    bool   // an event other than GoStatus has come
	closed   bool

	at        *thread // of the last event that was written
	losses    uint64  // how often events were lost
	unmarked  uint64  // events whose loss the trace does not tell yet
	procsTold int     // Ps of which the trace tells

	gc       gcState
	gcSeq    uint64
	gcUntold bool       // this generation does not tell yet that a collection is under way
	stw      *goroutine // has stopped the world; it runs

	tasks map[uint64]bool // have begun

	held    event.Event // while holding; see arrange
	holding bool

	stats counts
}

// firstGen is the number of the first generation.
const firstGen = 1

// maxTime is the last time that an event can have. What comes later is written right after it.
const maxTime = 1 << 62

// gap is how many ticks are left free between generations. Readers put events of their own there.
const gap = 4

// New is trace.NewWriter.
func New(out io.Writer, opt Options) (*Writer, error) {
	switch {
	case opt.Version == 0:
		opt.Version = raw.Go123
	case !opt.Version.Valid() || opt.Version.V1():
		return nil, fmt.Errorf("cannot write a trace in the format of %s, only of Go1.22 and later: %w", opt.Version, raw.ErrVersion)
	}
	switch {
	case opt.Generation == 0:
		opt.Generation = DefaultGeneration
	case opt.Generation < 0:
		return nil, fmt.Errorf("a generation cannot cover %v", opt.Generation)
	}
	w := &Writer{out: out, opt: opt, model: newModel(), tables: newTables(), tasks: map[uint64]bool{}}
	w.unused.prev, w.unused.next = &w.unused, &w.unused
	if opt.Text {
		w.text = newTextOutput(out)
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

// errClosed is returned for events that come after Close.
var errClosed = errors.New("trace: write to a closed writer")

// Write is trace.Writer.Write.
func (w *Writer) Write(e *event.Event) error {
	switch {
	case w.closed:
		return errClosed
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
	if d > noticedMove {
		w.stats.Moved++
	}
}

// noticedMove is how much later an event may be than it said without being counted as moved.
const noticedMove = time.Microsecond

var (
	// operations are the kinds that have no equivalent in a trace and are written as messages.
	operations = event.KindsAll.Without(event.KindsTrace.Union(event.KindsOf(event.GoSwitch, event.Exec, event.Resample)))
	// needsG are the kinds about a goroutine.
	needsG = event.KindsGoroutine.Union(event.KindsSyscall, operations, event.KindsUser).
		Without(event.KindsOf(event.CPUSample, event.UserTaskBegin, event.UserTaskEnd, event.UserLog))
)

// handle writes an event.
func (w *Writer) handle(e *event.Event) {
	if needsG.Has(e.Kind) && (e.G == 0 || e.G >= guestID) {
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
	default:
		if operations.Has(e.Kind) {
			w.operationLog(e)
			return
		}
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
	case event.GCMarkAssistBegin, event.GCMarkAssistEnd:
		w.markAssist(e)
	case event.HeapAlloc:
		w.heapSize(e, raw.EvHeapAlloc)
	case event.HeapGoal:
		w.heapSize(e, raw.EvHeapGoal)
	case event.AllocBytes, event.AllocObjects:
		w.counterLog(e)
	case event.UserTaskBegin, event.UserTaskEnd:
		w.userTask(e)
	case event.UserRegionBegin, event.UserRegionEnd:
		w.userRegion(e)
	case event.UserLog:
		w.userLog(e)
	case event.CPUSample:
		w.cpuSample(e)
	case event.Lost:
		n := uint64(max(e.Missing(), 0))
		w.stats.Lost += n
		w.unmarked += n
		w.losses++
	case event.Exec:
		w.exec()
	case event.Resample:
		w.resample(e)
	default:
		w.stats.Skipped[e.Kind]++
	}
}

// mark writes what the writer itself has to tell, when the last event left a goroutine running with a P.
func (w *Writer) mark() {
	m := w.at
	if m == nil || m.g == nil || m.g.state != goRunning || m.p == nil || m.back != 0 {
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

// Close is trace.Writer.Close.
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

// Stats counts what a [Writer] has written. Package trace has the same struct for its users, and documents the fields there.
type Stats struct {
	Events      uint64
	Written     uint64
	Generations uint64
	Bytes       uint64
	Lost        uint64

	Bridged           uint64
	Repaired          uint64
	Found             uint64
	Goroutines, Ended uint64
	Alive             uint64

	Cut     uint64
	Moved   uint64
	MaxMove time.Duration

	Logged  map[event.Kind]uint64
	Skipped map[event.Kind]uint64
}

// counts are the numbers of Stats that are counted on the way.
type counts struct {
	Stats
	Logged, Skipped [event.KindLimit]uint64
}

// Stats is trace.Writer.Stats.
func (w *Writer) Stats() Stats {
	s := w.stats.Stats
	s.Logged, s.Skipped = kindCounts(&w.stats.Logged), kindCounts(&w.stats.Skipped)
	s.Alive = uint64(len(w.goroutines))
	if w.goroutines[guestID] != nil {
		s.Alive--
	}
	return s
}

func kindCounts(counts *[event.KindLimit]uint64) map[event.Kind]uint64 {
	m := map[event.Kind]uint64{}
	for k, n := range counts {
		if n > 0 {
			m[event.Kind(k)] = n
		}
	}
	return m
}
