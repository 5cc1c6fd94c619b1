package instrumentation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loupe-go/loupe/internal/spans/control"
)

// ErrClosed reports that [Instrumentation.Close] was called.
var ErrClosed = errors.New("the instrumentation is closed")

// pollInterval is the time between two searches for processes of the executables.
const pollInterval = 500 * time.Millisecond

// An Instrumentation makes spans of the requests of running programs. [New] creates it, [Instrumentation.Load] attaches to the
// processes, [Instrumentation.Run] reads the spans, and [Instrumentation.Close] detaches from the processes. Its methods are safe for
// concurrent use.
type Instrumentation struct {
	config     *config
	manager    *manager
	controller *control.Controller // nil: spans are not exported

	loading, loaded, running atomic.Bool

	closing sync.Mutex // held by Close
}

// New returns an Instrumentation, which must be closed. It does not attach to processes. ctx applies to the creation of exporters.
func New(ctx context.Context, options ...Option) (*Instrumentation, error) {
	c, err := newConfig(options, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	i := &Instrumentation{config: c}
	if c.exports != nil {
		i.controller, err = control.New(ctx, control.Options{Config: c.exports, Sampler: c.sampler, Console: os.Stdout, Log: c.log, Version: version()})
		if err != nil {
			return nil, err
		}
	}
	i.manager = newManager(c, newAnalyzer(c.exes, c.log), i.controller)
	return i, nil
}

// Load attaches to the processes that exist, and returns when their probes are in place. Spans are kept in a buffer until Run reads
// them. Load can be called once.
//
// A process that cannot be observed is reported to the logger. It is an error only if no executable was selected, and none of the
// process IDs can be observed. The error then wraps one of the errors of package loupe, such as loupe.ErrNoProcess,
// loupe.ErrPermission or loupe.ErrNotGo, where one applies. If ctx is done, Load returns its error; the processes that Load has
// attached to are observed until Close.
func (i *Instrumentation) Load(ctx context.Context) error {
	m := i.manager
	switch {
	case m.ctx.Err() != nil:
		return ErrClosed
	case i.loading.Swap(true):
		return errors.New("Load was called before")
	}
	if i.config.disabled {
		i.config.log.Info("no process is observed: OTEL_SDK_DISABLED is true")
		i.loaded.Store(true)
		return nil
	}
	var list []*process
	for _, pid := range i.config.pids {
		if p := m.start(ctx, pid, ""); p != nil {
			list = append(list, p)
		}
	}
	list = append(list, m.startFound(ctx)...)
	var errs lineErrors
	for _, p := range list {
		<-p.attached
		if p.err != nil {
			errs = append(errs, p.err)
		}
	}
	switch {
	case m.ctx.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case len(i.config.exes) == 0 && len(errs) == len(i.config.pids):
		return errs
	}
	i.loaded.Store(true)
	return nil
}

// lineErrors is several errors whose text is one line.
type lineErrors []error

func (l lineErrors) Error() string {
	texts := make([]string, len(l))
	for i, err := range l {
		texts[i] = err.Error()
	}
	return strings.ReplaceAll(strings.Join(texts, "; "), "\n", "; ")
}

func (l lineErrors) Unwrap() []error { return l }

// Run reads the spans and passes them to their destinations. It attaches to new processes of the executables. Run returns when ctx is
// done, when Close is called, or, if no executable was selected, when all processes have ended. It detaches from the processes before
// it returns. Run can be called once, after Load.
//
// The error is nil, unless Load has not succeeded or Run was called before.
func (i *Instrumentation) Run(ctx context.Context) error {
	m := i.manager
	switch {
	case m.ctx.Err() != nil:
		return nil
	case !i.loaded.Load():
		return errors.New("Load must succeed before Run is called")
	case i.running.Swap(true):
		return errors.New("Run was called before")
	}
	close(m.run)
	i.follow(ctx)
	m.close()
	<-m.idle
	return nil
}

// follow attaches to new processes until the observation is to end.
func (i *Instrumentation) follow(ctx context.Context) {
	m := i.manager
	var poll <-chan time.Time
	if len(i.config.exes) > 0 && !i.config.disabled {
		ticker := time.NewTicker(pollInterval)
		defer ticker.Stop()
		poll = ticker.C
	}
	waits := len(i.config.exes) > 0 || i.config.disabled
	for waits || m.active() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-m.ctx.Done():
			return
		case <-poll:
			m.startFound(m.ctx)
		case <-m.ended:
		}
	}
}

// Stats returns the numbers so far. It may be called at any time.
func (i *Instrumentation) Stats() Stats {
	s := i.manager.stats()
	if i.controller != nil {
		e := i.controller.Stats()
		s.Queued, s.Exported, s.Failed, s.Dropped = e.Queued, e.Exported, e.Failed, e.Dropped
	}
	return s
}

// Close ends Load and Run, detaches from all processes, and exports the last spans and metrics. It takes at most about 10 seconds: spans
// that are not exported by then are dropped, which Stats counts and the error says. Close may be called more than once; it then returns
// what is still wrong. The function of [WithHandler] must not call it. See loupe.Session.Close for processes from which it cannot detach.
func (i *Instrumentation) Close() error {
	i.closing.Lock()
	defer i.closing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), i.config.closeTimeout)
	defer cancel()
	m := i.manager
	m.close()
	var errs lineErrors
	select {
	case <-m.idle:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("the observation has not ended after %v", i.config.closeTimeout))
	}
	if err := m.release(); err != nil {
		errs = append(errs, err)
	}
	if i.controller != nil {
		if err := i.controller.Close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}
