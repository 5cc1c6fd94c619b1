package observe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/sampling"
)

// Options selects what a session observes.
type Options struct {
	Kinds       event.Kinds
	StackDepth  int           // maximum number of addresses of a stack; 0 or less for no stacks
	Goroutines  []uint64      // empty for all
	System      bool          // include the goroutines of the runtime
	Sample      sampling.Rule // which goroutines are sampled
	BufferBytes int           // of events in the program, for this session
}

const (
	// answerTime is how long the agent may take to answer.
	answerTime = 5 * time.Second
	// queued is the maximum number of messages that wait for the consumer of Events.
	queued = 64
)

// Session is the observation of a program by its agent.
type Session struct {
	opt     Options
	nc      *net.UnixConn
	pid     int // 0 if it is in another PID namespace
	welcome *wire.Welcome
	offset  int64
	names   *names
	in      chan wire.Message // what Events reads
	closed  chan struct{}     // closed when nobody reads in any more
	detach  sync.Once
	hangUp  sync.Once
	ctx     context.Context

	writing sync.Mutex // held to send a message

	mu       sync.Mutex // guards the fields below
	started  bool
	running  bool // Events is yielding
	detached bool
	requests uint64
	answers  map[uint64]chan wire.Message
	err      error
	ended    bool // the agent has said that the program ends
	yielded  uint64
	received [wire.NumEvents]uint64
	last     wire.Events // without the records
	late     uint64
	agents   uint64
}

// Open connects to the agent at a socket. If pid is not 0, the agent must be that process.
func Open(ctx context.Context, path string, pid int, opt Options) (*Session, error) {
	nc, peer, err := dial(ctx, path)
	if err != nil {
		return nil, err
	}
	s := &Session{opt: opt, nc: nc, pid: peer, in: make(chan wire.Message, queued), closed: make(chan struct{}), answers: map[uint64]chan wire.Message{}, ctx: ctx}
	if err := s.open(pid); err != nil {
		nc.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func (s *Session) open(pid int) error {
	if pid != 0 && s.pid != pid {
		return fmt.Errorf("the socket of process %d belongs to process %d", pid, s.pid)
	}
	r := wire.NewReader(s.nc, 0)
	s.nc.SetReadDeadline(time.Now().Add(answerTime))
	if err := s.send(&wire.Hello{Magic: wire.Magic, Version: wire.Version}); err != nil {
		return err
	}
	m, err := r.Next()
	if err != nil {
		return fmt.Errorf("the agent does not answer: %w", err)
	}
	switch m := m.(type) {
	case *wire.Welcome:
		s.welcome = m
	case *wire.Refused:
		return fmt.Errorf("the agent refuses the connection: %s", m.Why)
	default:
		return fmt.Errorf("%w: unexpected %T", wire.ErrGarbage, m)
	}
	s.offset = s.welcome.Unix - s.welcome.Clock
	s.names = newNames(s.welcome)
	s.opt.Kinds = s.opt.Kinds.Intersect(kindsOf(s.welcome.Events))
	start := &wire.Start{Events: eventsOf(s.opt.Kinds) & s.welcome.Events, Stack: uint64(max(s.opt.StackDepth, 0)), System: s.opt.System, Buffer: uint64(max(s.opt.BufferBytes, 0))}
	if err := s.send(start); err != nil {
		return err
	}
	m, err = r.Next()
	if err != nil {
		return fmt.Errorf("the agent does not begin: %w", err)
	}
	switch m := m.(type) {
	case *wire.Started:
		s.in <- m
	case *wire.Refused:
		return fmt.Errorf("the agent refuses: %s", m.Why)
	default:
		return fmt.Errorf("%w: unexpected %T", wire.ErrGarbage, m)
	}
	s.nc.SetReadDeadline(time.Time{})
	go s.read(r)
	return nil
}

// Available returns the kinds of events that the agent has.
func (s *Session) Available() event.Kinds { return kindsOf(s.welcome.Events) }

func (s *Session) send(m wire.Message) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.nc.SetWriteDeadline(time.Now().Add(answerTime))
	_, err := s.nc.Write(wire.Append(nil, m))
	return err
}

// read reads messages until the connection ends. Answers go to those who asked, everything else to Events.
func (s *Session) read(r *wire.Reader) {
	defer close(s.in)
	for {
		s.mu.Lock()
		detached := s.detached
		s.mu.Unlock()
		if detached { // the consumer may have been slow
			s.nc.SetReadDeadline(time.Now().Add(answerTime))
		}
		m, err := r.Next()
		if err != nil {
			s.connectionEnded(err)
			return
		}
		if s.answer(m) {
			continue
		}
		switch m := m.(type) {
		case *wire.Refused:
			s.fail(fmt.Errorf("the agent ends the connection: %s", m.Why))
		case *wire.End:
			s.mu.Lock()
			s.ended = true
			s.mu.Unlock()
		}
		select {
		case s.in <- m:
		case <-s.closed:
			return
		}
	}
}

// connectionEnded records the error that ended the connection, unless the session was closed or the program has ended.
func (s *Session) connectionEnded(err error) {
	s.mu.Lock()
	expected := s.ended || s.detached
	s.mu.Unlock()
	if expected {
		return
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		if s.pid == 0 || s.exited() {
			return
		}
		err = errors.New("the agent has ended the connection")
	}
	s.fail(err)
}

// exited reports whether the process has ended. The kernel closes its files shortly before.
func (s *Session) exited() bool {
	for range 100 {
		if !goproc.Exists(s.pid) {
			return true
		}
		time.Sleep(2 * time.Millisecond)
	}
	return false
}

func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// answer passes a message on to the caller that asked for it.
func (s *Session) answer(m wire.Message) bool {
	request := uint64(0)
	switch m := m.(type) {
	case *wire.Goroutines:
		request = m.Request
	case *wire.GoroutinesEnd:
		request = m.Request
	case *wire.Memory:
		request = m.Request
	default:
		return false
	}
	if request == 0 {
		return false
	}
	s.mu.Lock()
	to := s.answers[request]
	s.mu.Unlock()
	if to != nil {
		select {
		case to <- m:
		case <-s.closed:
		case <-time.After(answerTime): // the caller has left
		}
	}
	return true
}

// ask sends a request and calls each with the answers until it returns true.
func (s *Session) ask(ctx context.Context, request func(n uint64) wire.Message, each func(wire.Message) (done bool)) error {
	answers := make(chan wire.Message, 8)
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.answers[n] = answers
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.answers, n)
	}()
	if err := s.send(request(n)); err != nil {
		return s.gone(err)
	}
	timeout := time.NewTimer(answerTime)
	defer timeout.Stop()
	for {
		select {
		case m := <-answers:
			if each(m) {
				return nil
			}
			timeout.Reset(answerTime)
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
			return net.ErrClosed
		case <-timeout.C:
			return s.gone(errors.New("the agent does not answer"))
		}
	}
}

// gone returns the error of a request: that the process has exited if it has, or err.
func (s *Session) gone(err error) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	if ended || s.pid != 0 && !goproc.Exists(s.pid) {
		return fmt.Errorf("process %d: %w", s.pid, goproc.ErrExited)
	}
	return err
}

// Events yields the events until the program ends, or the session is closed. It may be called only once.
func (s *Session) Events() iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		s.mu.Lock()
		first := !s.started
		s.started, s.running = true, first
		s.mu.Unlock()
		if !first {
			return
		}
		defer s.disconnect()
		st := newStream(s, yield)
		for m := range s.in {
			if !st.add(m) {
				return
			}
		}
		st.finish()
	}
}

// Err returns the error that ended the events, or nil if the program has ended or the session was closed.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Stats returns the counts of events. What the buffers of the program lost is not known by kind.
func (s *Session) Stats() event.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := event.Stats{Events: s.yielded, Kinds: map[event.Kind]event.Counts{}, Lost: s.last.Lost}
	for e, k := range kindOf {
		c := stats.Kinds[k]
		c.Received += s.received[e]
		c.Produced += s.received[e]
		if e < len(s.last.Dropped) {
			c.Lost += s.last.Dropped[e]
			c.Produced += s.last.Dropped[e]
			stats.Lost += s.last.Dropped[e]
		}
		if k != 0 && c != (event.Counts{}) {
			stats.Kinds[k] = c
		}
	}
	return stats
}

// Warnings returns messages for the user.
func (s *Session) Warnings() []event.Warning {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []event.Warning
	if s.opt.Kinds.Has(event.STWBegin) {
		list = append(list, event.Warnf(event.WarnMissing, "STW pauses other than those of garbage collections are not reported: the agent in the program does not have them"))
	}
	if s.last.Stacks > 0 {
		list = append(list, event.Warnf(event.WarnNames, "the program has more different stacks than the agent has room for: some events have no stack"))
	}
	if s.late > 0 {
		list = append(list, event.Warnf(event.WarnTimes, "events arrived late because the machine is busy: their times and their order are less accurate"))
	}
	return list
}

// Agents returns the number of goroutines of agents in the program. They have no events.
func (s *Session) Agents() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents
}

// list returns the goroutines that exist, without those of agents.
func (s *Session) list(each func(*wire.Goroutine)) error {
	return s.ask(s.ctx, func(n uint64) wire.Message { return &wire.List{Request: n} }, func(m wire.Message) bool {
		if g, ok := m.(*wire.Goroutines); ok {
			for i := range g.List {
				each(&g.List[i])
			}
			return false
		}
		return true
	})
}

// Alive returns the IDs of all goroutines, without those of agents.
func (s *Session) Alive() (ids []uint64, err error) {
	err = s.list(func(g *wire.Goroutine) { ids = append(ids, g.ID) })
	return ids, err
}

// Observed returns the IDs of the goroutines that match the options.
func (s *Session) Observed() (ids []uint64, err error) {
	filter := converter{opt: s.opt}
	err = s.list(func(g *wire.Goroutine) {
		if filter.wanted(g.ID) && (s.opt.System || !g.System) {
			ids = append(ids, g.ID)
		}
	})
	return ids, err
}

// Memory reads the memory statistics of the program.
func (s *Session) Memory(ctx context.Context) (*event.Memory, error) {
	var read *event.Memory
	err := s.ask(ctx, func(n uint64) wire.Message { return &wire.ReadMemory{Request: n} }, func(m wire.Message) bool {
		if m, ok := m.(*wire.Memory); ok {
			read = memoryOf(m, s.offset)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if s.pid != 0 {
		if u, err := goproc.KernelUsage(s.pid); err == nil {
			read.Process.RSS = uint64(u.RSS)
		}
	}
	return read, nil
}

// Usage returns what the kernel accounts to the process.
func (s *Session) Usage() (event.Usage, error) {
	if s.pid == 0 {
		return event.Usage{}, errors.New("the process is in another PID namespace")
	}
	u, err := goproc.KernelUsage(s.pid)
	usage := event.Usage{CPU: u.CPU, RSS: u.RSS, Procs: int(s.welcome.Procs), Err: u.Err}
	for _, t := range u.Threads {
		usage.Threads = append(usage.Threads, event.ThreadUsage{TID: int32(t.Inner), CPU: t.CPU, Wait: t.Wait})
	}
	return usage, err
}

// Info describes the process.
func (s *Session) Info() event.ProcessInfo {
	w := s.welcome
	return event.ProcessInfo{PID: s.PID(), Exe: w.Exe, GoVersion: w.GoVersion, Module: w.Module, ModuleVersion: w.ModuleVer, Arch: w.Arch, Goroutines: -1}
}

// PID returns the ID of the process: the one that it knows itself, if it is in another PID namespace.
func (s *Session) PID() int {
	if s.pid == 0 {
		return int(min(s.welcome.PID, 1<<31-1))
	}
	return s.pid
}

// Detach ends the stream. Events still yields what the program has recorded until now.
func (s *Session) Detach() error {
	s.detach.Do(func() {
		s.mu.Lock()
		s.detached = true
		s.mu.Unlock()
		s.nc.SetReadDeadline(time.Now().Add(answerTime))
		if err := s.send(&wire.Stop{}); err != nil { // the agent has gone
			s.nc.Close()
		}
	})
	return nil
}

// Close ends the stream. What has not been yielded is discarded, unless Events is yielding.
func (s *Session) Close() error {
	s.Detach()
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if !running {
		s.disconnect()
	}
	return nil
}

// disconnect ends the connection.
func (s *Session) disconnect() {
	s.Detach()
	s.hangUp.Do(func() {
		close(s.closed)
		s.nc.Close()
	})
}

// counted publishes counts.
func (s *Session) counted(yielded uint64, received *[wire.NumEvents]uint64, late uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.yielded, s.received, s.late = yielded, *received, late
}

// keep stores what a message says about losses.
func (s *Session) keep(m *wire.Events) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = wire.Events{Lost: m.Lost, Stacks: m.Stacks, Dropped: slices.Clone(m.Dropped), Sent: slices.Clone(m.Sent)}
}
