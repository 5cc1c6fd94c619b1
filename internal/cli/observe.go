package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// liveFlags are the flags of a command that observes the live events of a TARGET.
type liveFlags struct {
	engine   choice
	clock    choice
	duration time.Duration
	stack    int
	buffer   byteSize
}

// add adds the flags to a command. By default it observes for the given duration, or until Ctrl-C if that is 0, with a buffer of
// f.buffer, or of loupe.DefaultBufferBytes if that is 0.
func (f *liveFlags) add(cmd *cobra.Command, duration time.Duration) {
	f.buffer = cmp.Or(f.buffer, loupe.DefaultBufferBytes)
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", duration, "stop after this time, such as 10s; 0 means until Ctrl-C or until the program exits")
	f.clock.add(cmd, "clock", "clock of engine inline", "; coarse is cheaper: its times are exact to the interval between two samples of Loupe's reader, which is reported at the end",
		string(loupe.ClockAuto), string(loupe.ClockPrecise), string(loupe.ClockCoarse))
	flags.IntVar(&f.stack, "stack", loupe.DefaultStackDepth, "record at most `N` return addresses per stack; 0 records no stacks, which is cheaper")
	flags.Var(&f.buffer, "buffer", "`SIZE` of the buffer between the program and Loupe; events that do not fit are lost and counted")
}

// problem says what is wrong with the flags; empty when nothing is.
func (f *liveFlags) problem() string {
	switch {
	case f.duration < 0:
		return fmt.Sprintf("--duration %v is negative; 0 means until Ctrl-C", f.duration)
	case f.stack < 0:
		return fmt.Sprintf("--stack %d is negative; 0 records no stacks", f.stack)
	case f.stack > loupe.MaxStackDepth:
		return fmt.Sprintf("--stack %d is too large: the maximum is %d", f.stack, loupe.MaxStackDepth)
	}
	return ""
}

// options are the flags as package loupe wants them.
func (f *liveFlags) options(a *app) loupe.Options {
	opt := loupe.Options{StackDepth: f.stack, BufferBytes: int(f.buffer), Engine: loupe.Engine(f.engine.name), Clock: loupe.Clock(f.clock.name), Log: a.log()}
	if f.stack == 0 {
		opt.StackDepth = -1
	}
	return opt
}

// addMemoryInterval adds the flag for the time between two samples of memory statistics.
func addMemoryInterval(f *pflag.FlagSet, every *time.Duration) {
	f.DurationVar(every, "memory-interval", loupe.DefaultMemoryInterval, "with kinds of the group memory: time between two samples of heap sizes and allocation counters")
}

// memoryIntervalProblem returns what is wrong with the flag, or the empty string.
func memoryIntervalProblem(every time.Duration) string {
	if every < minMemInterval {
		return fmt.Sprintf("--memory-interval %v is too short: the minimum is %v", every, minMemInterval)
	}
	return ""
}

// liveTargetHelp is the part of a command's help that says what TARGET is, for live events.
const liveTargetHelp = `TARGET is a PID, the path of an executable, a process name, a container ID,
pod:NAME, pod:NAMESPACE/NAME, or -- PROG ARGS..., which starts a program and
observes it from its first goroutine. The output of the program goes to stderr.
Loupe exits when the program exits, with its exit status. A name that matches
several Go processes is an error, which lists their PIDs. unix:PATH is the
socket of the agent in a program (package glti/observe).`

// socketPrefix begins a target that is the socket of the agent in a program.
const socketPrefix = "unix:"

// observe attaches to the target of a command line, or starts it, and calls watch with the session. The session ends when
// watch returns, after the duration, or when the context is done.
func (a *app) observe(cmd *cobra.Command, args []string, opt loupe.Options, duration time.Duration, watch func(context.Context, session) error) error {
	if cmd.ArgsLenAtDash() == 0 {
		return a.observeProgram(cmd.Context(), args, opt, duration, watch)
	}
	var target watched
	var err error
	if path, ok := strings.CutPrefix(args[0], socketPrefix); ok {
		target.socket = path
	} else if target.pid, err = a.find(cmd, args[0]); err != nil {
		return err
	}
	defer catchBrokenPipe()()
	err = a.attached(cmd.Context(), target, opt, duration, watch)
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// observeProgram starts a program, observes it, and stays until it ends. The error passes on the program's exit status.
func (a *app) observeProgram(ctx context.Context, argv []string, opt loupe.Options, duration time.Duration, watch func(context.Context, session) error) error {
	program := a.programCommand(argv)
	if program.Err != nil {
		return cannotStart(program, program.Err)
	}
	signals, release := a.catchSignals()
	defer release()
	ended := make(chan struct{})
	defer close(ended)
	var started session
	err := a.told(a.attached(ctx, watched{program: program}, opt, duration, func(ctx context.Context, s session) error {
		started = s
		go passOn(signals, program.Process, ended)
		return watch(ctx, s)
	}))
	status := exitDone
	if started != nil {
		status, _ = started.ExitStatus()
	}
	return withProgram(status, err)
}

// attached attaches to a target, calls watch with the session, and ends it.
func (a *app) attached(ctx context.Context, target watched, opt loupe.Options, duration time.Duration, watch func(context.Context, session) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	progress := a.progress("attaching to " + target.String())
	s, err := a.attach(ctx, target, opt)
	progress.Stop()
	if err != nil {
		return attachError(target, opt.Engine, err)
	}
	defer s.Close()
	defer context.AfterFunc(ctx, a.endOutput)()
	tell := a.tellWarnings(s)
	defer tell()
	if duration > 0 {
		timer := time.AfterFunc(duration, stop)
		defer timer.Stop()
	}
	if err := watch(ctx, s); err != nil {
		return err
	}
	tell()
	a.tellTimeError(s.Stats().TimeError)
	if err := s.Err(); err != nil {
		return fmt.Errorf("stopped observing process %d: %w", s.PID(), err)
	}
	if err := s.Close(); err != nil {
		return fmt.Errorf("detaching from process %d: %w", s.PID(), err)
	}
	return nil
}

// warningsEvery is the time between looks at a session's warnings.
const warningsEvery = 100 * time.Millisecond

// tellWarnings passes on the warnings of a session, each once: those that are known now at once, later ones as soon as they
// come up, or when the view that has the screen is over. The function that it returns ends that.
func (a *app) tellWarnings(s session) (end func()) {
	printed := map[string]int{} // how often each warning was printed
	tell := func() {
		now := map[string]int{}
		for _, w := range event.WarningTexts(s.Warnings()) {
			if now[w]++; now[w] <= printed[w] {
				continue
			}
			if term.IsTerminal(a.Stderr) && !a.quiet {
				fmt.Fprint(a.Stderr, term.EraseLine) // which may show the progress
			}
			a.notes([]string{w})
		}
		printed = now
	}
	tell()
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(warningsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if !a.onScreen {
					tell()
				}
			case <-over:
				tell()
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-stopped
	})
}

// tellTimeError tells the user how exact times by a coarse clock are.
func (a *app) tellTimeError(e event.TimeError) {
	if e.Max > 0 {
		a.note("note: times are exact to %s for 99 %% of the events and to %s for all (coarse clock)", report.ShortTime(e.P99), report.ShortTime(e.Max))
	}
}

// stopwatch measures the time until it is asked or, when that is earlier, until the context is done: what is left in the
// buffer then is of the time before.
func stopwatch(ctx context.Context) (elapsed func() time.Duration) {
	began := time.Now()
	done := make(chan time.Duration, 1)
	stop := context.AfterFunc(ctx, func() { done <- time.Since(began) })
	return func() time.Duration {
		if stop() {
			return time.Since(began)
		}
		return <-done
	}
}

// String names the target to the user.
func (w watched) String() string {
	if w.program != nil {
		return w.program.Args[0]
	}
	if w.socket != "" {
		return "the agent at " + w.socket
	}
	return fmt.Sprintf("process %d", w.pid)
}

// attachError is what the user is told when a session does not come about.
func attachError(target watched, engine loupe.Engine, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var path *fs.PathError
	if target.program != nil && errors.As(err, &path) && path.Path == target.program.Path {
		return cannotStart(target.program, path.Err)
	}
	pid := target.pid
	if target.program != nil && target.program.Process != nil {
		pid = target.program.Process.Pid
	}
	return &targetError{pid: pid, err: err, engine: engine}
}

// byteSize is a flag for a number of bytes: "65536", "512KiB", "16MiB", "1G".
type byteSize int64

// byteUnits are the units of a byteSize, which all are powers of 1024.
var byteUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

func (b *byteSize) Type() string { return "size" }

func (b *byteSize) String() string {
	for _, u := range byteUnits {
		if n := int64(*b); n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprint(n/u.bytes, u.name)
		}
	}
	return fmt.Sprint(int64(*b))
}

// maxBufferBytes is the largest buffer of a session.
const maxBufferBytes = 1 << 30

func (b *byteSize) Set(text string) error {
	n, ok := parseSize(text, maxBufferBytes)
	if !ok {
		return errors.New("must be a size from 1 to 1GiB, such as 16MiB")
	}
	*b = byteSize(n)
	return nil
}

// memorySize is a byteSize without an upper limit.
type memorySize int64

func (m *memorySize) Type() string   { return "size" }
func (m *memorySize) String() string { return (*byteSize)(m).String() }

func (m *memorySize) Set(text string) error {
	n, ok := parseSize(text, math.MaxInt64)
	if !ok {
		return errors.New("must be a size, such as 512MiB or 4GiB")
	}
	*m = memorySize(n)
	return nil
}

// parseSize returns the size that a text tells; false if it is no size from 1 to most.
func parseSize(text string, most int64) (int64, bool) {
	unit := int64(1)
	number := text
	for _, u := range byteUnits {
		for _, name := range []string{u.name, u.name[:1] + "B", u.name[:1]} {
			if len(text) > len(name) && strings.EqualFold(text[len(text)-len(name):], name) && unit == 1 {
				unit, number = u.bytes, text[:len(text)-len(name)]
			}
		}
	}
	n, err := parseCount(strings.TrimSpace(number))
	if err != nil || n == 0 || n > uint64(most/unit) {
		return 0, false
	}
	return int64(n) * unit, true
}
