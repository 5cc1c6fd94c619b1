package goproc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// Process is a live Go process, opened for observation. Its methods may be called from several goroutines; snapshots are
// taken one after the other.
type Process struct {
	pid      int
	dir      *procDir
	main     *module // the image with the runtime
	runsMain bool    // goroutine 1 lives as long as the process
	plugins  int
	program  string // the program of the process when it was opened, as in procStat
	mem      memory
	log      *slog.Logger

	layout   *layout.Layout
	rt       runtimeLayout
	warnings []string

	mu      sync.Mutex // guards what follows; held during a snapshot
	symbols *symbolizer

	signals signalStacks
}

// Options says how to open a process. The zero value is usable.
type Options struct {
	Log *slog.Logger // receives details for debugging; nil discards them

	// Layout replaces the layout that would be chosen for the target. It is verified like any other.
	Layout *layout.Layout

	// Starting opens a process that has not run its first instruction yet. There is nothing to verify in it, so the
	// layout is only believed: call Verify when it runs.
	Starting bool
}

// initTimeout is how long Open waits for a starting process to initialize its goroutines.
const initTimeout = 2 * time.Second

// Open opens a process by its PID, finds its runtime's data and verifies that the struct layouts fit. The caller closes
// the Process. Errors wrap a sentinel of this package.
func Open(pid int, opt Options) (*Process, error) {
	p := &Process{pid: pid, mem: memory{pid}, log: opt.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if err := p.open(opt); err != nil {
		err = p.UnlessReplaced(err)
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) open(opt Options) error {
	var err error
	if p.dir, err = openProc(p.pid); err != nil {
		return err
	}
	st, err := p.dir.stat()
	if err != nil {
		return err
	}
	if st.state == 'Z' || st.state == 'X' {
		return fmt.Errorf("process %d: %w", p.pid, ErrExited)
	}
	p.program = st.program
	if p.main, err = p.openMain(); err != nil {
		return err
	}
	bin := p.main.bin
	p.runsMain = runsMain(bin)
	p.symbols = newSymbolizer(p.main)
	if p.layout = opt.Layout; p.layout == nil {
		p.layout = bin.Layout()
	}
	if err := bin.DWARFError(); err != nil {
		p.log.Debug("debug information not used", "exe", bin.Path(), "err", err)
	}
	if p.layout.Source == layout.SourceNearest {
		p.warn("%s is unknown to this version of Loupe; using the layout of %s, which was verified against the process",
			bin.GoVersion(), p.layout.GoVersion)
	}
	if p.rt, err = newRuntimeLayout(p.layout, p.main); err != nil {
		return fmt.Errorf("process %d: %w: %w", p.pid, ErrLayout, err)
	}
	if opt.Starting {
		return nil
	}
	p.loadPlugins()
	if err := p.findOtherRuntimes(); err != nil {
		return err
	}
	return p.awaitVerified()
}

// replaceTime is how long a process without threads may take to execute another program or to exit.
const replaceTime = 2 * time.Second

// UnlessReplaced returns err, nil included, unless the process has replaced itself by another program since Open was called:
// then nothing is known about it, and the error wraps ErrReplaced. An error for which the process has exited says only that,
// whatever failed because of it.
func (p *Process) UnlessReplaced(err error) error {
	for deadline := time.Now().Add(replaceTime); ; time.Sleep(5 * time.Millisecond) {
		if p.dir == nil || p.program == "" {
			return err
		}
		st, statErr := p.dir.stat()
		if statErr == nil && st.program != "" && st.program != p.program {
			return fmt.Errorf("process %d: %w", p.pid, ErrReplaced)
		}
		// exec ends the threads of a process first.
		exited := errors.Is(err, ErrExited) || errors.Is(err, ErrNoProcess)
		switch {
		case !exited || statErr == nil && !st.ended() && time.Now().After(deadline):
			return err
		case statErr != nil || st.ended():
			return fmt.Errorf("process %d: %w", p.pid, ErrExited)
		}
	}
}

// Verify checks the layouts against the process. Open has done it unless the process was starting. It waits a moment for
// a runtime that is not set up yet.
func (p *Process) Verify() error { return p.awaitVerified() }

// openExe opens the executable of a process, even if it was replaced or deleted on disk.
func openExe(pid int) (*gobin.Binary, error) {
	link := fmt.Sprintf("/proc/%d/exe", pid)
	f, err := os.Open(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, statErr := os.Stat(fmt.Sprintf("/proc/%d", pid)); statErr == nil {
			return nil, fmt.Errorf("process %d: %w: a kernel thread or an exiting process", pid, ErrNotGo)
		}
		return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	case errors.Is(err, fs.ErrPermission):
		if name, linkErr := os.Readlink(link); linkErr == nil { // requires permission to trace the process
			return nil, fmt.Errorf("process %d: %w: %s", pid, ErrUnreadable, name)
		}
		return nil, procError(pid, err)
	case err != nil:
		return nil, procError(pid, err)
	}
	name, err := os.Readlink(link)
	if err != nil {
		name = link
	}
	bin, err := gobin.OpenFile(f, name)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("process %d: %w", pid, binError(err))
	}
	return bin, nil
}

// binError adds a sentinel of this package to an error of package gobin without changing its text.
func binError(err error) error {
	switch {
	case errors.Is(err, gobin.ErrNotGo), errors.Is(err, gobin.ErrNotELF):
		return reasonError{reason: ErrNotGo, err: err}
	case errors.Is(err, gobin.ErrUnsupportedArch), errors.Is(err, gobin.ErrUnsupported), errors.Is(err, gobin.ErrCorrupt):
		return reasonError{reason: ErrUnsupported, err: err}
	}
	return err
}

// reasonError is an error that also matches a sentinel of this package.
type reasonError struct{ reason, err error }

func (e reasonError) Error() string   { return e.err.Error() }
func (e reasonError) Unwrap() []error { return []error{e.reason, e.err} }

// awaitVerified verifies the layout. A process that has just started may not have initialized its runtime: awaitVerified
// waits a moment for it.
func (p *Process) awaitVerified() error {
	deadline := time.Now().Add(initTimeout)
	for {
		p.mu.Lock()
		err := p.verify()
		p.mu.Unlock()
		if err == nil || !errors.Is(err, errStarting) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d: %w: the runtime has no goroutines", p.pid, ErrLayout)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Close releases what the Process holds. The observed process is not affected.
func (p *Process) Close() error {
	if p.dir != nil {
		p.dir.close()
	}
	if p.symbols == nil {
		return nil
	}
	var errs []error
	for _, m := range p.symbols.modules {
		errs = append(errs, m.bin.Close())
	}
	return errors.Join(errs...)
}

// PID returns the process's number.
func (p *Process) PID() int { return p.pid }

// Binary returns the image that holds the Go runtime, in general the executable.
func (p *Process) Binary() *gobin.Binary { return p.main.bin }

// LoadBias returns what the loader added to the addresses of Binary; 0 unless it is position-independent.
func (p *Process) LoadBias() uint64 { return p.main.bias }

// Layout returns the verified struct layouts.
func (p *Process) Layout() *layout.Layout { return p.layout }

// Warnings returns what a user should know about the way the process was understood, one line each.
func (p *Process) Warnings() []string { return p.warnings }

func (p *Process) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}

// alive returns an error when the process has ended.
func (p *Process) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	st, err := p.dir.stat()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return fmt.Errorf("process %d: %w", p.pid, err)
	}
	if err != nil || st.state == 'Z' || st.state == 'X' {
		return fmt.Errorf("process %d: %w", p.pid, ErrExited)
	}
	return nil
}
