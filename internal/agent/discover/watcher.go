package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
)

// Options configures a [Watcher]. The zero value is usable.
type Options struct {
	// Log receives messages about the source of processes, and about processes that cannot be read: one of each kind. If it is nil,
	// messages are discarded.
	Log *slog.Logger

	// Interval is the time between two scans of /proc if the kernel does not report processes. Zero means DefaultInterval. A scan
	// inspects new processes and those of Go programs, and one in 10 of the others: a process that executes a program later than 4
	// scans after it appeared is found within 10 scans.
	Interval time.Duration

	// Rescan is the time between two scans of all processes if the kernel reports them, in case that one was missed. Zero means
	// DefaultRescan.
	Rescan time.Duration

	// These disable sources: the process connector, which requires the network namespace of the machine and, before Linux 6.6,
	// CAP_NET_ADMIN; and tracepoints, which require CAP_BPF and CAP_PERFMON. Both require the PID namespace of the machine. The
	// capabilities are required only when Run is called.
	NoConnector, NoTracepoints bool
}

// Defaults of Options.
const (
	DefaultInterval = time.Second
	DefaultRescan   = 30 * time.Second
)

// A Kind is what has happened to a process.
type Kind int

// The kinds of events.
const (
	Appeared Kind = iota // a process runs a Go program
	Vanished             // the process has ended, or has executed a program that is not a Go program
	Replaced             // the process has executed another Go program
)

func (k Kind) String() string {
	switch k {
	case Appeared:
		return "appeared"
	case Vanished:
		return "vanished"
	case Replaced:
		return "replaced"
	}
	return "kind " + strconv.Itoa(int(k))
}

// An Event reports a change. For each PID the first event is Appeared; Vanished ends what Appeared has begun, and Appeared with the same
// PID after that is another process or another program.
type Event struct {
	Kind     Kind
	Process  Process // for Vanished as it was reported last
	Previous Process // for Replaced: the process as it was reported last
}

// A Watcher follows the processes of Go programs. [New] creates it.
type Watcher struct {
	log              *slog.Logger
	interval, rescan time.Duration
	noConnector      bool
	noTracepoints    bool
	self             int
	buffer, ring     int // sizes in bytes, of openConnector and openTracepoints

	// These belong to the goroutine that calls Run.
	handle  func(Event)
	known   map[int]*known // by PID
	pending map[int]recheck
	files   *fileCache
	hanging atomic.Int32 // examinations that have not ended in time
	scans   int

	mu    sync.Mutex
	stats Stats

	examined func(pid int, o outcome) // for tests; nil otherwise
}

// A known process was inspected.
type known struct {
	id      goproc.Identity
	outcome outcome
	process Process // if outcome is isGo
	scans   int     // number of scans that have seen the process
	scan    int     // the last scan that has seen it
}

// An outcome is what an inspection of a program has resulted in.
type outcome int

const (
	noProgram outcome = iota // a kernel thread, or a process that is about to end
	isGo
	notGo
	gone // ended before it was inspected
	failed
)

// A recheck is another inspection of a process that was about to end.
type recheck struct {
	due  time.Time
	wait time.Duration
}

// New returns a Watcher. It does nothing until [Watcher.Run] is called.
func New(opt Options) *Watcher {
	w := &Watcher{log: opt.Log, interval: opt.Interval, rescan: opt.Rescan, noConnector: opt.NoConnector, noTracepoints: opt.NoTracepoints,
		buffer: connectorBuffer, ring: ringBytes,
		known: map[int]*known{}, pending: map[int]recheck{}, files: newFileCache()}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.interval <= 0 {
		w.interval = DefaultInterval
	}
	if w.rescan <= 0 {
		w.rescan = DefaultRescan
	}
	w.stats.Failed = map[string]uint64{}
	return w
}

// Run calls handle for each event until ctx is done, and then returns nil. It reports the processes that exist first. The calling
// process is not reported. Calls are sequential; while one takes long, notices of the kernel wait in a buffer, and if that is full,
// Run scans /proc instead. Run can be called once. The error is that /proc cannot be read.
func (w *Watcher) Run(ctx context.Context, handle func(Event)) error {
	w.handle = handle
	self, err := os.Readlink("/proc/self") // /proc may be that of another PID namespace
	if err != nil {
		return fmt.Errorf("cannot find processes: %w", err)
	}
	if w.self, err = strconv.Atoi(self); err != nil {
		return fmt.Errorf("cannot find processes: %w", err)
	}
	f := w.open() // before the first scan, so that no process is missed
	defer func() { f.close() }()
	if err := w.scan(true); err != nil {
		return fmt.Errorf("cannot find processes: %w", err)
	}
	ticker := time.NewTicker(w.period(f))
	defer ticker.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		w.arm(again)
		select {
		case <-ctx.Done():
			return nil
		case b, ok := <-f.batches():
			if !ok {
				w.fallBack(f.err)
				f.close()
				f = nil
				ticker.Reset(w.period(f))
				b.lost = true
			}
			w.notice(b)
		case <-again.C:
			w.recheck()
		case <-ticker.C:
			w.rescanned(w.scan(f != nil))
		}
	}
}

func (w *Watcher) period(f *feed) time.Duration {
	if f == nil {
		return w.interval
	}
	return w.rescan
}

// notice handles notices of the kernel.
func (w *Watcher) notice(b batch) {
	if b.lost {
		w.count(func(s *Stats) { s.Overflows++ })
		w.rescanned(w.scan(true))
	}
	for _, n := range b.notices {
		if n.exit {
			w.exited(n.pid)
		} else if n.pid != w.self {
			w.inspect(n.pid, true)
		}
	}
}

// rescanned counts a scan that has failed, and logs the first one.
func (w *Watcher) rescanned(err error) {
	if err == nil {
		return
	}
	first := false
	w.count(func(s *Stats) {
		s.ScanErrors++
		first = s.ScanErrors == 1
	})
	if first {
		w.log.Warn("cannot find processes", "err", err)
	}
}

// Most processes execute their program soon after they were created. So most scans inspect only processes that are new, and a part of the
// others.
const (
	newScans   = 4  // scans that inspect a process after it was created
	scansRound = 10 // scans that inspect all processes together
)

// scan inspects the processes in /proc: those that may have changed, or all.
func (w *Watcher) scan(all bool) error {
	pids, err := goproc.PIDs()
	if err != nil {
		return err
	}
	w.scans++
	for _, pid := range pids {
		if pid == w.self {
			continue
		}
		k := w.known[pid]
		if k != nil {
			k.scans++
			k.scan = w.scans
		}
		if k == nil || all || k.scans <= newScans || k.outcome == isGo || (pid+w.scans)%scansRound == 0 {
			w.inspect(pid, false)
		}
	}
	for pid, k := range maps.Clone(w.known) { // those that remain have ended
		if k.scan != w.scans {
			w.forget(pid)
		}
	}
	w.count(func(s *Stats) { s.Scans++ })
	return nil
}

// inspect determines what a process runs now. executes is set if it has just executed a program.
func (w *Watcher) inspect(pid int, executes bool) {
	old := w.known[pid]
	id, err := goproc.Identify(pid)
	switch {
	case errors.Is(err, goproc.ErrNoProcess), errors.Is(err, goproc.ErrExited):
		w.forget(pid)
		if executes {
			w.add(pid, gone)
		}
		return
	case err != nil:
		if old == nil {
			w.add(pid, failed)
			w.fail(pid, err)
			w.known[pid] = &known{id: goproc.Identity{PID: pid}, outcome: failed, scan: w.scans}
		}
		return
	}
	if executes && id.NoProgram() {
		w.add(pid, gone)
	}
	switch {
	case old != nil && old.id == id && (old.outcome != failed || !w.retry(old)):
		return
	case id.NoProgram() && old != nil && old.id.SameProcess(id):
		w.later(pid, 0) // its first thread has ended before the others, or it is about to execute a program
		return
	}
	next := &known{id: id, scan: w.scans}
	if old != nil && old.id.SameProcess(id) {
		next.scans = old.scans
	} else if old != nil {
		w.forget(pid)
		old = nil
	}
	if old == nil && !executes && id.Age() < forkTime && id.Forked() {
		w.later(pid, forkTime)
		return
	}
	if !id.NoProgram() {
		found := w.examine(id)
		next.outcome, next.process = found.outcome, found.process
		if old == nil || old.outcome != failed || next.outcome != failed { // else it was counted
			w.add(pid, next.outcome)
			if next.outcome == failed {
				w.fail(pid, found.err)
			}
		}
	}
	w.replace(pid, old, next)
}

// retry reports whether a process that could not be read is to be read again: it can have changed its user, or the kernel's settings can
// have changed.
func (w *Watcher) retry(k *known) bool { return k.scans%scansRound == 0 }

// forkTime is how long a process may run the program of its parent without being reported: most will execute another one.
const forkTime = time.Second

// replace notes what a process runs, and reports it.
func (w *Watcher) replace(pid int, old, next *known) {
	was, is := old != nil && old.outcome == isGo, next.outcome == isGo
	delete(w.pending, pid)
	if next.outcome == gone {
		delete(w.known, pid)
	} else {
		w.known[pid] = next
	}
	switch {
	case was && is:
		w.count(func(s *Stats) { s.Replaced++ })
		w.handle(Event{Kind: Replaced, Process: next.process, Previous: old.process})
	case is:
		w.count(func(s *Stats) { s.Appeared++; s.Running++ })
		w.handle(Event{Kind: Appeared, Process: next.process})
	case was:
		w.vanished(old)
	}
}

// forget removes a process that has ended.
func (w *Watcher) forget(pid int) {
	k := w.known[pid]
	delete(w.known, pid)
	delete(w.pending, pid)
	if k != nil && k.outcome == isGo {
		w.vanished(k)
	}
}

func (w *Watcher) vanished(k *known) {
	w.count(func(s *Stats) { s.Vanished++; s.Running-- })
	w.handle(Event{Kind: Vanished, Process: k.process})
}

// exited handles the end of the first thread of a process. The others may end later.
func (w *Watcher) exited(pid int) {
	k := w.known[pid]
	if k == nil {
		return
	}
	if k.outcome != isGo {
		w.forget(pid)
		return
	}
	w.inspect(pid, false)
	if w.known[pid] == k { // a tracepoint reports the end before it
		w.later(pid, 0)
	}
}

// The times until a process that is about to end is inspected again.
const (
	firstRecheck = time.Millisecond
	lastRecheck  = time.Second
)

// later inspects a process again after a minimum time. If it is called again for the process, the time is longer.
func (w *Watcher) later(pid int, least time.Duration) {
	wait := max(min(max(2*w.pending[pid].wait, firstRecheck), lastRecheck), least)
	w.pending[pid] = recheck{time.Now().Add(wait), wait}
}

// arm sets a timer to the next recheck.
func (w *Watcher) arm(t *time.Timer) {
	wait := time.Hour
	for _, r := range w.pending {
		wait = min(wait, time.Until(r.due))
	}
	t.Reset(max(wait, 0))
}

// recheck inspects the processes whose time has come.
func (w *Watcher) recheck() {
	now := time.Now()
	for pid, r := range maps.Clone(w.pending) {
		if r.due.After(now) {
			continue
		}
		k := w.known[pid]
		w.inspect(pid, false)
		switch again, ok := w.pending[pid]; {
		case !ok, again != r: // it has ended, or the time was set again
		case k != nil && w.known[pid] == k: // it has not ended yet
			w.later(pid, 0)
		default:
			delete(w.pending, pid)
		}
	}
}
