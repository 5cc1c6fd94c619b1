package instrumentation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/spans"
)

// A process is observed by the goroutine that calls observe. It is no longer observed when observe returns.
type process struct {
	manager *manager
	pid     int
	exe     string // empty if it was selected by its ID

	attached chan struct{} // closed after the first attempt to attach
	err      error         // of this attempt; valid when attached is closed

	session *loupe.Session   // guarded by manager.mu; nil if it is not observed
	export  *control.Process // nil: spans are not exported
	relay   *relay           // nil without WithTracerProvider
	cancel  func()           // ends the session
	ending  error            // why the events of the last session ended early
}

// A process that starts does not have its runtime's data in place at first.
const (
	attachAttempts = 5
	attachPause    = 200 * time.Millisecond
)

// metricsTimeout limits the last export of the metrics of a process.
const metricsTimeout = 3 * time.Second

// observe attaches to the process and reads its spans until it ends. A process that was selected by its ID is observed again after it
// has executed another program.
func (p *process) observe(ctx context.Context) {
	m := p.manager
	first := true
	for {
		s, err := p.attach(ctx)
		if err != nil {
			p.report(err)
		}
		if first {
			p.err, first = err, false
			close(p.attached)
		}
		if err != nil {
			return
		}
		p.read(s)
		if p.exe != "" || !errors.Is(p.ending, loupe.ErrExec) || m.ctx.Err() != nil {
			return
		}
		ctx = m.ctx
	}
}

// report notes that the process cannot be observed, unless that is no error.
func (p *process) report(err error) {
	gone := errors.Is(err, loupe.ErrExited) || errors.Is(err, loupe.ErrNoProcess) || errors.Is(err, loupe.ErrExec)
	switch m := p.manager; {
	case errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
	case gone && p.exe != "": // for example a process that was about to execute another program
		m.log.Debug("the process has ended meanwhile", "pid", p.pid, "exe", p.exe, "err", err)
	default:
		m.failed(p, err)
	}
}

// attach attaches to the process.
func (p *process) attach(ctx context.Context) (*loupe.Session, error) {
	m := p.manager
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.ctx.Done():
		return nil, ErrClosed
	}
	defer func() { <-m.slots }()
	m.analyzer.describe(p.pid)
	until, cancel := context.WithCancel(m.ctx)
	goOn := context.AfterFunc(ctx, cancel)
	s, err := p.tryAttach(until)
	aborted := !goOn() && ctx.Err() != nil
	if err == nil && !aborted && m.ctx.Err() == nil {
		if err = p.begin(s); err == nil {
			p.cancel = cancel
			return s, nil
		}
	}
	cancel()
	if s != nil {
		err = errors.Join(err, p.closeSession(s))
	}
	switch {
	case m.ctx.Err() != nil:
		return nil, ErrClosed
	case aborted:
		return nil, ctx.Err()
	}
	return nil, err
}

// tryAttach attaches to the process, which may be starting.
func (p *process) tryAttach(ctx context.Context) (*loupe.Session, error) {
	m := p.manager
	opt := loupe.Options{Engine: m.config.engine, Log: m.log, Spans: loupe.SpanOptions{
		Handle: func(s *spans.Span) { m.handle(p, s) }, Reuse: m.config.handler == nil && m.config.provider == nil,
		NoWork: m.config.noBreakdown, Allocs: m.config.allocations, NoQueryText: m.config.noQueryText, NoQueryParsing: m.config.noParsing, Functions: m.config.functions, ProfilerMap: m.config.profilerMap}}
	opt.Spans.Propagation = m.config.propagation()
	if sampler := m.config.sampler; sampler != nil {
		opt.Spans.Sample = func(s *spans.Span) bool { return control.Sample(sampler, s) }
	}
	for attempt := 1; ; attempt++ {
		s, err := loupe.Attach(ctx, loupe.PID(p.pid), opt)
		again := errors.Is(err, loupe.ErrLayout) || errors.Is(err, loupe.ErrExec) && p.exe == ""
		if !again || attempt == attachAttempts {
			return s, err
		}
		m.log.Debug("attaching again", "pid", p.pid, "attempt", attempt, "err", err)
		select {
		case <-time.After(attachPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// begin prepares what receives the spans of a session.
func (p *process) begin(s *loupe.Session) error {
	m := p.manager
	info := s.Info()
	if m.controller != nil {
		host, _ := os.Hostname() // unknown otherwise
		var err error
		p.export, err = m.controller.Process(m.ctx, otlp.Process{PID: p.pid, Name: filepath.Base(info.Exe), Path: info.Exe, GoVersion: info.GoVersion, Host: host})
		if err != nil {
			return fmt.Errorf("process %d: %w", p.pid, err)
		}
	}
	if m.config.provider != nil {
		p.relay = newRelay(m.config.provider, m.version, &m.relayed)
	}
	p.warn(s.Warnings())
	m.log.Info("observing process", "pid", p.pid, "exe", info.Exe, "go", info.GoVersion)
	m.log.Debug("functions with probes", "pid", p.pid, "functions", strings.Join(s.SpanFunctions(), " "))
	m.mu.Lock()
	defer m.mu.Unlock()
	p.session = s
	return nil
}

func (p *process) warn(list []event.Warning) {
	for _, w := range list {
		p.manager.log.Warn(w.Error(), "pid", p.pid)
	}
}

// read waits until spans are to be read, reads those of a session, and closes it.
func (p *process) read(s *loupe.Session) {
	m := p.manager
	warned := len(s.Warnings())
	select {
	case <-m.run:
	case <-m.ctx.Done():
	}
	select {
	case <-m.run:
		for range s.Events() { // spans arrive with them
		}
	default:
	}
	if p.relay != nil {
		p.relay.close()
	}
	p.ending = s.Err()
	closeErr := p.closeSession(s)
	p.cancel()
	if all := s.Warnings(); len(all) > warned {
		p.warn(all[warned:])
	}
	m.account(p, s)
	switch {
	case p.ending != nil && !errors.Is(p.ending, loupe.ErrExec):
		m.log.Warn("the observation has ended early", "pid", p.pid, "err", p.ending)
	case m.ctx.Err() == nil:
		m.log.Info("the process is no longer observed", "pid", p.pid, "reason", p.reason())
	}
	if closeErr != nil {
		m.log.Warn("cannot detach from the process", "pid", p.pid, "err", closeErr)
	}
	p.endExport()
}

func (p *process) reason() string {
	if p.ending != nil {
		return "it has executed another program"
	}
	return "it has exited"
}

// closeSession closes a session, or keeps it for later.
func (p *process) closeSession(s *loupe.Session) error {
	err := s.Close()
	if err != nil {
		p.manager.keep(s)
	}
	return err
}

// endExport exports the metrics of a process that has ended. The controller exports those of all others when it is closed.
func (p *process) endExport() {
	if p.export == nil || p.manager.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), metricsTimeout)
	defer cancel()
	if err := p.export.Close(ctx); err != nil {
		p.manager.log.Warn("metrics are missing", "pid", p.pid, "err", err)
	}
	p.export = nil
}
