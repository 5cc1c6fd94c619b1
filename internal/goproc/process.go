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

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/gobin/layout"
)

// A Process is a live Go process that is opened for observation. Its methods may be called from several goroutines.
// Snapshots are taken one after the other.
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
	warnings []event.Warning

	mu      sync.Mutex // guards what follows; held during a snapshot
	symbols *symbolizer
	walk    []physical // of the current ThreadStack
	native  nativeCode

	signals signalStacks
	types   typeNames
	sched   *schedOffsets // nil until Scheduler is called

	booksOnce sync.Once
	books     *heapBooks // see heapBooks
	booksErr  error
}

// Options configures Open. The zero value is usable.
type Options struct {
	Log *slog.Logger // receives debug messages; if nil, they are discarded

	// Layout, if not nil, is used instead of the layout that Open would select. It is verified like any other layout.
	Layout *layout.Layout

	// Starting opens a process that has not executed its first instruction yet. Its layout cannot be verified at that
	// time: call Verify when the process runs.
	Starting bool
}

// initTimeout is how long Open waits for a starting process to initialize its goroutines.
const initTimeout = 2 * time.Second

// Open opens the process with the given PID, finds the runtime's data and verifies the struct layouts. The caller must
// close the Process. The error wraps one of the package's errors.
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
		p.warn(event.WarnLayout, "%s is unknown to this version of Loupe; using the layout of %s, which was verified against the process",
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

// UnlessReplaced returns err, which may be nil, unless the process has executed another program since Open was called.
// In that case nothing is known about the process, and the result wraps ErrReplaced. If err reports that the process
// does not exist or has exited, the result wraps ErrExited.
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

// Verify checks the layouts against the process, as Open does unless Options.Starting is set. It waits a moment if the
// runtime is not initialized yet.
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
	case errors.Is(err, gobin.ErrNotELF):
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

// Close releases the resources of p. The observed process is not affected.
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
	return errors.Join(append(errs, p.native.close())...)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.pid }

// Binary returns the image that contains the Go runtime, which is usually the executable.
func (p *Process) Binary() *gobin.Binary { return p.main.bin }

// LoadBias returns the difference between the addresses in the process and those in Binary. It is 0 unless the image is
// position-independent.
func (p *Process) LoadBias() uint64 { return p.main.bias }

// Constant returns size bytes at an address of memory that the program cannot write, from its executable.
func (p *Process) Constant(addr uint64, size int) ([]byte, error) {
	return p.main.bin.Constant(addr-p.main.bias, size)
}

// Layout returns the verified struct layouts.
func (p *Process) Layout() *layout.Layout { return p.layout }

// Warnings returns warnings for the user about limits of what could be read.
func (p *Process) Warnings() []event.Warning { return p.warnings }

func (p *Process) warn(kind event.WarningKind, format string, args ...any) {
	p.warnings = append(p.warnings, event.Warnf(kind, format, args...))
}

// alive returns an error if the process has ended.
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
