package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/term"
)

const (
	// sameRequest is the time in which more signals are the same request: timeout(1) sends two, and an impatient person
	// presses Ctrl-C twice.
	sameRequest = time.Second
	// detachPatience bounds how long Loupe waits for the probes to be removed before it ends on a second request.
	detachPatience = 20 * time.Second
	// slowRemoval is the time after which top says that it is still removing the probes.
	slowRemoval = 3 * time.Second
)

// endingSignals are the signals that end a process unless it catches them. Loupe catches all of them, because code that
// engine inline has put into a program has to be removed first.
var endingSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
	syscall.SIGVTALRM, syscall.SIGXCPU, syscall.SIGXFSZ, syscall.SIGIO, syscall.SIGPWR, syscall.SIGSTKFLT}

// suspendingSignals are the signals that a terminal sends to suspend a process, for Ctrl-Z or because it is in the background.
var suspendingSignals = []os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU}

// Main runs a command line as all that this process does, and returns its exit status. It handles the signals:
//
//   - One that would end the process ends the command: probes are removed, then what is known is written.
//   - A second one ends Loupe at once, but not before the probes are removed. While Loupe stays with a program that it has
//     started, signals are for the program.
//   - SIGQUIT removes the probes, and then does what it does in every Go program.
//   - SIGTSTP, SIGTTIN and SIGTTOU suspend Loupe, but only while it has not stopped the target.
func Main(env Env) int {
	a := &app{Env: env, system: machine{}, state: &state{}}
	if len(env.Args) > 0 && env.Args[0] == demoProgram { // its goroutines are for people to see
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return a.run(ctx)
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	signals := make(chan os.Signal, 16)
	for _, s := range slices.Concat(endingSignals, suspendingSignals, []os.Signal{syscall.SIGQUIT}) {
		if !signal.Ignored(s) { // as SIGHUP under nohup
			signal.Notify(signals, s)
		}
	}
	status := make(chan int, 1)
	go func() { status <- a.run(ctx) }()
	var first time.Time
	for {
		select {
		case s := <-status:
			return s
		case s := <-signals:
			switch {
			case slices.Contains(suspendingSignals, s):
				go a.state.hold.suspend()
			case s == syscall.SIGQUIT:
				end()
				a.state.hold.wait(detachPatience, func(h *hold) bool { return h.held == 0 })
				signal.Reset(syscall.SIGQUIT)
				syscall.Kill(os.Getpid(), syscall.SIGQUIT)
			case s == syscall.SIGUSR1 && a.state.dumps.Load(): // record --last writes a file
			case s == syscall.SIGXFSZ: // the write fails
			case first.IsZero():
				first = time.Now()
				end()
			case time.Since(first) >= sameRequest && !a.state.staying.Load():
				return a.state.abandon(status, env.Stderr)
			}
		}
	}
}

// abandon ends Loupe without waiting for anything but the removal of the probes.
func (st *state) abandon(status <-chan int, stderr io.Writer) int {
	const moment = 200 * time.Millisecond
	say := func(format string, args ...any) {
		said := make(chan struct{})
		go func() { // stderr may be blocked
			defer close(said)
			fmt.Fprintf(stderr, "loupe: "+format+"\n", args...)
		}()
		select {
		case <-said:
		case <-time.After(moment):
		}
	}
	gone := func(h *hold) bool { return h.held == 0 }
	if !st.hold.wait(0, gone) {
		say("removing the probes first (at most %v)", detachPatience)
		if !st.hold.wait(detachPatience, gone) {
			say("the probes were not removed within %v; loupe doctor shows what is left, loupe doctor --repair removes it", detachPatience)
		}
	}
	select {
	case s := <-status: // it has ended by itself meanwhile
		return s
	case <-time.After(moment):
	}
	if partial := st.partial.Load(); partial != nil && exists(*partial) {
		say("interrupted; partial output is in %s", term.Escape(*partial))
	} else {
		say("interrupted")
	}
	return exitFailed
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// state is what the handling of signals has to know of a command.
type state struct {
	hold    hold
	staying atomic.Bool            // with a program that Loupe has started: signals are for it
	dumps   atomic.Bool            // SIGUSR1 has a meaning
	partial atomic.Pointer[string] // the file that is being written
}

// hold knows whether probes are in a target. The zero value is ready for use.
type hold struct {
	mu       sync.Mutex // guards what follows
	held     int        // targets that probes may be in
	changing int        // targets whose threads may be stopped: being attached to, detached from, read with --pause, or repaired
	changed  chan struct{}

	suspending bool
}

// add changes the counters.
func (h *hold) add(held, changing int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += held
	h.changing += changing
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// suspend stops this process as soon as no target has stopped threads, and until SIGCONT none will have.
func (h *hold) suspend() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.suspending {
		return
	}
	h.suspending = true
	for h.changing > 0 {
		changed := h.change()
		h.mu.Unlock()
		<-changed
		h.mu.Lock()
	}
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	h.suspending = false
}

// change returns a channel that is closed with the next change. The caller holds mu.
func (h *hold) change() <-chan struct{} {
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// stopping runs f, which may stop threads of a target.
func (h *hold) stopping(f func() error) error {
	h.add(0, 1)
	defer h.add(0, -1)
	return f()
}

// wait waits until a condition holds, and reports whether it does.
func (h *hold) wait(atMost time.Duration, holds func(*hold) bool) bool {
	timeout := time.After(atMost)
	for {
		h.mu.Lock()
		ok, changed := holds(h), h.change()
		h.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// heldSession is a session whose probes are in a target until it is detached or closed.
type heldSession struct {
	session
	hold *hold
	left sync.Once
	slow func() // says that removing the probes takes long
}

// attach attaches to a target. The probes are removed as soon as the context is done, whatever the caller does then.
func (a *app) attach(ctx context.Context, target watched, opt loupe.Options) (session, error) {
	hold := &a.state.hold
	hold.add(1, 0)
	var s session
	err := hold.stopping(func() (err error) {
		s, err = a.system.attach(ctx, target, opt)
		return err
	})
	if err != nil {
		hold.add(-1, 0)
		return nil, err
	}
	h := &heldSession{session: s, hold: hold, slow: sync.OnceFunc(func() {
		if !a.onScreen {
			a.note("still removing the probes from process %d", s.PID())
		}
	})}
	context.AfterFunc(ctx, func() { h.Detach() })
	return h, nil
}

// Detach implements session.
func (h *heldSession) Detach() error { return h.leave(h.session.Detach) }

// Close implements session.
func (h *heldSession) Close() error { return h.leave(h.session.Close) }

func (h *heldSession) leave(how func() error) error {
	slow := time.AfterFunc(slowRemoval, h.slow)
	err := h.hold.stopping(how)
	slow.Stop()
	h.left.Do(func() { h.hold.add(-1, 0) })
	return err
}
