package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/tui"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

// topFlags are the flags of loupe top.
type topFlags struct {
	live       liveFlags
	interval   time.Duration
	iterations int
	history    int
	rows       int
	system     bool
	syscalls   bool
	allocs     bool
}

// Bounds of flags.
const (
	minTopInterval = 100 * time.Millisecond
	maxTopHistory  = 16 << 20
	topHistory     = 256 << 10 // at 48 bytes: 12 MiB
)

func (a *app) topCommand() *cobra.Command {
	var flags topFlags
	cmd := &cobra.Command{
		Use:                   "top [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Show a live view of what goroutines do",
		Long: `Show a live view of a running Go program in the terminal: the number of
goroutines by creation site and by wait reason, which of them grow, where they
wait for locks, and how long they wait for the scheduler. Enter opens a row: its
goroutines, then one goroutine with its stacks, who created it, who woke it, and
its history. The program needs no change and no restart.

Keys: 1-5 or tab views, arrows or jk move, enter open, esc back, / filter,
s sort, r reverse, p pause, i interval, w notes, ? help, q quit.

If stdout is not a terminal, or with --json or --iterations, top prints the view
every --interval, as text or as one JSON object per line. The fields are
  time, pid, goVersion, seconds (observed), intervalSeconds
  events, eventsPerSecond, lost
  goroutines, states {running, runnable, waiting, syscall, unknown, uncertain}
  created, ended, createdPerSecond, endedPerSecond, wakeupsPerSecond,
  growthPerMinute, runningCPUs (goroutineSeconds divided by the interval)
  cpu: what the kernel accounts to the process in the interval
    processSeconds: processor time of all threads (utime + stime); the sum of
    goroutineSeconds (goroutines, in Go code, C code and system calls) and
    runtimeSeconds (the scheduler, the garbage collector, and goroutines that
    are not observed)
    runQueueWaitSeconds: how long threads waited for a processor
    gomaxprocs, threads, rssBytes: current values
  gc {count, seconds, active}, stw {count, p50Nanoseconds, maxNanoseconds},
  heapBytes: as of the last collection
  memory: the memory statistics of the runtime
    heapBytes (allocated), liveBytes, goalBytes, gcCycles, allocBytesPerSecond,
    allocObjectsPerSecond
    gcShare: the share of the processor time of all Ps that collections took
    between the last two that were seen, without marking on idle Ps
  allocs, with --allocs {bytes, objects, bytesPerSecond, objectsPerSecond,
  elsewhereBytes (by the runtime, and by goroutines without a site), lost}
  schedulerLatency {interval, overall}, each {count, p50-, p90-, p99-,
  maxNanoseconds}
  sites, at most --rows, largest number of goroutines first: createdBy, start,
  goroutines, growthPerMinute, created, ended, createdPerSecond, endedPerSecond,
  states, cpuSeconds (processor time), and runningSeconds (with a P),
  runnableSeconds, blockedSeconds, syscallSeconds, gcWaitSeconds (part of
  blockedSeconds: for the garbage collector), all in the interval; with --allocs
  allocBytes, allocObjects, allocBytesPerSecond, allocObjectsPerSecond, and
  gcShareByAllocBytes: the part of gcShare that is attributed to the site by its
  share of the allocated bytes, which is not a measurement
  groups, largest first: state, reason, count, oldestSeconds, waitsPerSecond
  contention (locks, sends), longest wait in the interval first: reason,
  intervalWaitSeconds, waitSeconds, count, countPerSecond, maxSeconds, now,
  stack
  warnings; end: why this object is the last one
Fields named PerSecond or interval are for the interval. All others are current
values or totals since the start. Fields are omitted until they are known.

--allocs counts what the goroutines of each site allocate. It costs the program
20 ns for each allocation with engine inline, which is then preferred (it
patches the process), and 1 µs or more with engine uprobe.

` + `TARGET is a PID, the path of an executable, a process name, a container ID,
pod:NAME, pod:NAMESPACE/NAME, or -- PROG ARGS..., which starts a program and
observes it from its first goroutine. Loupe exits with its exit status. In the
live view the program has no input, its output is printed after the view closes,
and closing the view interrupts it like Ctrl-C.`,
		Example: `  loupe top 1234
  loupe top orders --interval 500ms
  loupe top orders --allocs
  loupe top -- ./orders -port 8080
  loupe top orders -n 1 | head -20
  loupe top orders --json --duration 1m | jq '{goroutines, growthPerMinute}'`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.add(cmd, 0)
	f := cmd.Flags()
	f.DurationVar(&flags.interval, "interval", time.Second, "time between two updates")
	f.IntVarP(&flags.iterations, "iterations", "n", 0, "print the view `COUNT` times as text, then exit; 0 means no limit")
	f.IntVar(&flags.history, "history", topHistory, "keep the last `N` events, 48 bytes each, for the histories of goroutines; 0 disables histories")
	f.IntVar(&flags.rows, "rows", 10, "print at most `N` rows of each table, as text or JSON; 0 prints all")
	f.BoolVar(&flags.system, "system", false, "include goroutines of the Go runtime")
	f.BoolVar(&flags.syscalls, "syscalls", false,
		"observe system calls, which are frequent in programs that use the network; without it a goroutine in a system call counts as running until its P runs another")
	f.BoolVar(&flags.allocs, "allocs", false,
		"count allocations by creation site; costs the program 20 ns for each allocation with engine inline, 1 µs or more with engine uprobe")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if problem := flags.problem(); problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		return a.top(cmd, args, &flags)
	}
	return cmd
}

// problem says what is wrong with the flags; empty when nothing is.
func (f *topFlags) problem() string {
	switch {
	case f.interval < minTopInterval:
		return fmt.Sprintf("--interval %v is too short: the minimum is %v", f.interval, minTopInterval)
	case f.iterations < 0:
		return fmt.Sprintf("--iterations %d is negative; 0 means no limit", f.iterations)
	case f.history < 0 || f.history > maxTopHistory:
		return fmt.Sprintf("--history %d is out of range: 0 to %d", f.history, maxTopHistory)
	case f.rows < 0:
		return fmt.Sprintf("--rows %d is negative; 0 prints all", f.rows)
	}
	return f.live.problem()
}

// kinds are the events to observe.
func (f *topFlags) kinds() event.Kinds {
	if f.syscalls {
		return event.KindsDefault.Union(event.KindsSyscall)
	}
	return event.KindsDefault
}

// top observes a target and shows it, on the terminal or as a series of pictures.
func (a *app) top(cmd *cobra.Command, args []string, flags *topFlags) error {
	opt := flags.live.options(a)
	opt.Kinds, opt.System = flags.kinds(), flags.system
	if flags.allocs {
		opt.Allocs.By = loupe.AllocsByGoroutine
	}
	// To read the P costs engine uprobe as much as the rest of a start. Threads and GOMAXPROCS bound running goroutines as well.
	opt.Procs = opt.Engine == loupe.EngineInline
	if a.json || flags.iterations > 0 || !term.IsTerminal(a.Stdout) || a.Getenv("TERM") == "dumb" {
		return a.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
			return a.topPrinted(ctx, s, flags)
		})
	}
	shown := *a
	shown.onScreen = true
	var output heldOutput
	started := cmd.ArgsLenAtDash() == 0
	if started { // the screen and the keyboard are the view's
		shown.Stdin = nil
		if term.IsTerminal(a.Stderr) {
			output.to = a.Stderr
			shown.Stderr = &output
			defer output.release()
		}
	}
	return shown.observe(cmd, args, opt, flags.live.duration, func(ctx context.Context, s session) error {
		output.hold()
		defer output.release()
		return shown.topShown(ctx, s, flags, a.Stdin, started)
	})
}

// watching is an observation under way, and its target.
type watching struct {
	*live.Observation
	session session
	ctx     context.Context

	mu     sync.Mutex // guards target
	target tui.Target
}

// watch begins to observe a session. named is told when more of the target is known.
func (a *app) watch(ctx context.Context, s session, flags *topFlags, named func(tui.Target)) *watching {
	w := &watching{session: s, ctx: ctx, target: tui.Target{PID: s.PID(), System: flags.system, Syscalls: flags.syscalls, Allocs: flags.allocs}}
	w.Observation = live.Observe(s, live.Options{
		State: sched.Options{Kinds: flags.kinds(), History: flags.history}, Window: flags.interval / 2, Allocs: flags.allocs, Log: a.log(),
	})
	go func() {
		info := s.Info()
		w.mu.Lock()
		w.target.Name, w.target.GoVersion, w.target.Module = filepath.Base(info.Exe), info.GoVersion, info.Module
		target := w.target
		w.mu.Unlock()
		if named != nil {
			named(target)
		}
	}()
	return w
}

// known is the target as far as it is known.
func (w *watching) known() tui.Target {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.target
}

// why says why the events have ended; empty when the user has ended them.
func (w *watching) why() tui.Ended {
	if err := w.Err(); err != nil {
		return tui.Ended{Text: "observation stopped: " + err.Error(), Bad: true}
	}
	if w.ctx.Err() != nil {
		return tui.Ended{}
	}
	if status, started := w.session.ExitStatus(); started {
		return tui.Ended{Text: fmt.Sprintf("the program exited with status %d", status), Bad: status != 0}
	}
	return tui.Ended{Text: fmt.Sprintf("process %d has exited", w.session.PID())}
}

// endWatching ends the session and tells what was lost.
func (a *app) endWatching(w *watching) {
	w.Close() // an error comes again when the session is ended
	a.tellLoss(w.session.Stats())
}

// topPrinted writes pictures of a session to stdout.
func (a *app) topPrinted(ctx context.Context, s session, flags *topFlags) error {
	w := a.watch(ctx, s, flags, nil)
	defer a.endWatching(w)
	var out tui.Printer = &tui.JSONPrinter{Out: a.Stdout, Target: w.known, Rows: flags.rows}
	if !a.json {
		const usual = 120
		width := term.Width(a.Stdout)
		if width == 0 {
			width = usual
		}
		colours := a.style() != term.Style{}
		out = &tui.TextPrinter{Out: a.Stdout, Target: w.known, Rows: flags.rows, Width: width, Colours: colours}
	}
	return tui.Print(w, out, tui.PrintOptions{
		Interval: flags.interval, Iterations: flags.iterations, Target: w.known,
		Leaving: ctx.Done(), Over: w.Done(), Ended: func() string { return w.why().Text },
	})
}

// topShown shows a session on the terminal until the user leaves, or the context is done. A program that was started for it
// is interrupted when the user leaves.
func (a *app) topShown(ctx context.Context, s session, flags *topFlags, keyboard io.Reader, started bool) error {
	news := make(chan any, 2)
	w := a.watch(ctx, s, flags, func(t tui.Target) { news <- t })
	program, err := os.FindProcess(s.PID())
	if err != nil {
		return fmt.Errorf("process %d: %w", s.PID(), err)
	}
	defer program.Release()
	go func() {
		<-w.Done()
		if why := w.why(); why != (tui.Ended{}) {
			news <- why
		}
	}()
	options := tui.RunOptions{Out: a.Stdout, Colours: a.Getenv("NO_COLOR") == "", News: news, Interrupted: func() {
		go s.Detach()
		a.endOutput()
	}}
	if term.IsTerminal(keyboard) {
		options.In = keyboard
	}
	err = tui.Run(ctx, tui.NewModel(w.known(), flags.interval, true), w, options)
	leaving := ctx.Err() == nil
	a.endWatching(w)
	if started {
		a.leave(program, leaving)
	}
	return err
}

// leaveTime is how long a program is given to end before the user is told that it has not.
const leaveTime = time.Second

// leave interrupts a program when the user has left the view, and tells when it goes on.
func (a *app) leave(program *os.Process, interrupt bool) {
	const pause = 20 * time.Millisecond
	if interrupt {
		program.Signal(os.Interrupt) // fails only when it has ended
	}
	for waited := time.Duration(0); waited < leaveTime; waited += pause {
		if program.Signal(syscall.Signal(0)) != nil {
			return
		}
		time.Sleep(pause)
	}
	a.note("the program is still running; waiting for it to exit (Ctrl-C interrupts it)")
}

// maxHeldOutput is how much of what a program writes is kept while the view has the screen.
const maxHeldOutput = 64 << 10

// heldOutput passes on what is written to it, or keeps the last of it for later.
type heldOutput struct {
	to io.Writer

	mu      sync.Mutex // guards what follows
	holding bool
	kept    []byte
	dropped int
}

func (h *heldOutput) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.holding {
		return h.to.Write(p)
	}
	h.kept = append(h.kept, p...)
	if more := len(h.kept) - maxHeldOutput; more > 0 {
		h.kept = append(h.kept[:0], h.kept[more:]...)
		h.dropped += more
	}
	return len(p), nil
}

// hold keeps what comes from now on.
func (h *heldOutput) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holding = h.to != nil
}

// release writes what was kept, and passes on what comes from now on.
func (h *heldOutput) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dropped > 0 {
		fmt.Fprintf(h.to, "loupe: the last %d of %d bytes of output:\n", len(h.kept), len(h.kept)+h.dropped)
	}
	if len(h.kept) > 0 {
		h.to.Write(h.kept)
	}
	h.holding, h.kept, h.dropped = false, nil, 0
}
