package observe

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

const (
	// defaultBuffer and maxBuffer are bytes of events that wait to be sent to a client. An event has about eight.
	defaultBuffer = 1 << 20
	maxBuffer     = 16 << 20
	// maxEvents is the length of events after which a message is complete.
	maxEvents = 128 << 10
	// maxAnswers limits what a client can ask for before it has received the answers, in bytes.
	maxAnswers = 64 << 20
	// helloTime is how long a client may take for its first message, and sendTime how long for receiving one.
	helloTime = 5 * time.Second
	sendTime  = time.Minute
	// beat is the time between two messages of a stream without events.
	beat = 50 * time.Millisecond
	// maxRequest is the maximum length of a message of a client.
	maxRequest = 1 << 10
)

// conn is the connection of a client.
type conn struct {
	nc    net.Conn
	ready chan struct{} // there is something to send
	gone  chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex
	out     []byte // messages that are to be sent before the events
	sealed  []byte // messages with events
	events  []byte // encoded records of the next message
	before  int64  // time of the last of them
	limit   int    // maximum length of sealed
	names   *names
	mask    uint64 // the events that the client has selected
	started int64
	until   int64 // as in wire.Events
	sentAt  int64 // when a message with events was last sent
	sent    [wire.NumEvents]uint64
	dropped [wire.NumEvents]uint64
	lost    uint64 // events and stacks that had been lost before the stream began
	full    uint64
	ended   bool
}

func newConn(nc net.Conn) *conn {
	c := &conn{nc: nc, ready: make(chan struct{}, 1), gone: make(chan struct{}), limit: defaultBuffer}
	c.names = newNames(0, c.put)
	return c
}

// run serves the client until the connection ends.
func (c *conn) run() {
	c.nc.SetReadDeadline(time.Now().Add(helloTime))
	r := wire.NewReader(c.nc, maxRequest)
	first, err := r.Next()
	if err != nil {
		return
	}
	hello, ok := first.(*wire.Hello)
	switch {
	case !ok || hello.Magic != wire.Magic:
		return
	case hello.Version != wire.Version:
		refuse(c.nc, fmt.Sprintf("the agent has version %d of the protocol, the client version %d", wire.Version, hello.Version))
		return
	}
	c.nc.SetReadDeadline(time.Time{})
	c.send(welcome())
	go c.write()
	var stream *glti.Stream
	for {
		m, err := r.Next()
		if err != nil {
			break
		}
		switch m := m.(type) {
		case *wire.Start:
			if stream != nil {
				err = wire.ErrGarbage
			} else if stream, err = c.start(m); err != nil {
				c.send(&wire.Refused{Why: err.Error()})
			}
		case *wire.List:
			err = c.list(m.Request)
		case *wire.ReadMemory:
			err = c.answer(readMemory(m.Request))
		case *wire.Stop:
			c.drain()
			err = net.ErrClosed
		default:
			err = wire.ErrGarbage
		}
		if err != nil {
			break
		}
	}
	if stream != nil {
		stream.Close()
	}
	c.close()
}

// drain returns when what the program has recorded until now has been passed to sink.
func (c *conn) drain() {
	const longest = 500 * time.Millisecond
	now := glti.Now()
	for {
		c.mu.Lock()
		done := c.started == 0 || c.until > now
		c.mu.Unlock()
		if done || glti.Now() > now+int64(longest) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func welcome() *wire.Welcome {
	w := &wire.Welcome{Version: wire.Version, PID: uint64(os.Getpid()), GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Procs: uint64(runtime.GOMAXPROCS(0)), Events: uint64(allEvents)}
	w.Exe, _ = os.Executable() // "" if unknown
	if info, ok := debug.ReadBuildInfo(); ok {
		w.Module, w.ModuleVer = info.Main.Path, info.Main.Version
	}
	best := int64(1 << 62)
	for i := 0; i < 100; i++ { // the pair of times that were read closest together
		clock := glti.Now()
		unix := time.Now().UnixNano()
		if d := glti.Now() - clock; d < best {
			best, w.Clock, w.Unix = d, clock+d/2, unix
		}
	}
	w.Reasons, w.Tracer = texts(glti.WaitReason), texts(glti.TraceReason)
	return w
}

// texts returns the texts of all numbers.
func texts(of func(uint8) string) (list []string) {
	for n := 0; n < 256; n++ {
		if s := of(uint8(n)); s != "" {
			list = append(list, make([]string, n-len(list))...)
			list = append(list, s)
		}
	}
	return list
}

// notYet is the time when a stream began that is being opened: no record is after it.
const notYet = 1 << 62

// settle is how long a thread that has passed a hook before the stream began takes to change the state of its goroutine, if it runs.
const settle = 100 * time.Microsecond

// start begins the stream.
func (c *conn) start(m *wire.Start) (*glti.Stream, error) {
	c.mu.Lock()
	c.mask = m.Events & uint64(allEvents)
	c.names.depth = int(min(m.Stack, wire.MaxStack))
	if m.Buffer > 0 {
		c.limit = int(min(m.Buffer, maxBuffer))
	}
	c.lost, c.full = glti.StreamLost()
	c.started = notYet
	c.mu.Unlock()
	stream, err := glti.OpenStream(glti.StreamOptions{Events: streamEvents(c.mask), Stack: c.names.depth, System: m.System}, c.sink)
	if err != nil {
		return nil, err
	}
	now := glti.Now()
	c.mu.Lock()
	c.started, c.before = now, 0
	c.put(&wire.Started{Time: now})
	c.mu.Unlock()
	c.wake()
	time.Sleep(settle)
	return stream, c.list(0)
}

// sink encodes records. It is called by the goroutine that reads the buffers of the runtime, and by others.
func (c *conn) sink(records []glti.StreamRecord, until int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range records {
		r := &records[i]
		if r.Time >= c.started {
			c.encode(r)
		}
	}
	if until > 0 && c.started != notYet { // Started comes first
		c.until = until
		if len(c.events) > 0 || len(c.out) > 0 || until-c.sentAt > int64(beat) {
			c.wake()
		}
	}
}

func (c *conn) encode(r *glti.StreamRecord) {
	out := wire.Record{Event: eventOf(r.Event), Time: r.Time, G: r.G.ID, By: r.By.ID, P: r.P}
	if r.Event == glti.EvGoYield && r.Args[0] == 1 {
		out.Event = wire.GoPreempt
	}
	if c.mask>>out.Event&1 == 0 && out.Event != wire.GCEnd {
		return
	}
	if len(c.sealed)+len(c.events) >= c.limit {
		c.dropped[out.Event]++
		return
	}
	switch out.Event {
	case wire.GoCreate:
		out.Arg, out.Arg2, out.Stack = c.names.place(r.Args[0]), c.names.start(r.Args[1]), c.names.stack(r.Stack)
	case wire.GoPark:
		out.Arg, out.Arg2, out.Stack = r.Args[0], r.Args[1], c.names.stack(r.Stack)
	case wire.GoStart:
		out.Arg = r.Args[0]
	default:
		out.Arg, out.Stack = r.Args[0], c.names.stack(r.Stack)
	}
	if c.mask>>out.Event&1 != 0 {
		c.append(&out)
	}
	if out.Event == wire.GCEnd && c.mask>>wire.HeapLive&1 != 0 {
		c.append(&wire.Record{Event: wire.HeapLive, Time: r.Time, P: -1, Arg: liveHeap()})
	}
}

func (c *conn) append(r *wire.Record) {
	c.events = wire.AppendRecord(c.events, r, c.before)
	c.before = r.Time
	c.sent[r.Event]++
	if len(c.events) >= maxEvents {
		c.seal()
	}
}

// seal makes a message of the events.
func (c *conn) seal() {
	lost, full := glti.StreamLost()
	m := wire.Events{Until: c.until, Lost: lost - c.lost, Stacks: full - c.full, Dropped: c.dropped[:], Sent: c.sent[:], Encoded: c.events}
	c.sealed = wire.Append(c.sealed, &m)
	c.events, c.before = c.events[:0], 0
}

// list sends the goroutines that exist.
func (c *conn) list(request uint64) error {
	var agents uint64
	m := wire.Goroutines{Request: request}
	var err error
	glti.Goroutines(func(g *glti.StreamGoroutine) bool {
		if g.Agent {
			agents++
			return true
		}
		c.mu.Lock()
		m.List = append(m.List, wire.Goroutine{ID: g.G.ID, Parent: g.Parent, State: stateOf[g.State], Reason: uint64(g.Reason), Wait: int64(g.Wait),
			Thread: g.Thread, CreatedBy: c.names.place(uint64(g.CreatedBy)), Func: c.names.start(uint64(g.StartPC)), Stack: c.names.stack(g.Stack), System: g.System})
		c.mu.Unlock()
		if len(m.List) == 1000 {
			err = c.answer(&m)
			m.List = m.List[:0]
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := c.answer(&m); err != nil {
		return err
	}
	return c.answer(&wire.GoroutinesEnd{Request: request, Time: glti.Now(), Agents: agents})
}

// put adds a message that is to be sent. The caller holds the lock, except before the stream begins.
func (c *conn) put(m wire.Message) { c.out = wire.Append(c.out, m) }

// answer sends a message when there is room for it: this waits for the client, and for nobody else.
func (c *conn) answer(m wire.Message) error {
	for {
		c.mu.Lock()
		room := len(c.out) < maxAnswers
		if room {
			c.put(m)
		}
		c.mu.Unlock()
		c.wake()
		if room {
			return nil
		}
		select {
		case <-c.gone:
			return net.ErrClosed
		case <-time.After(beat):
		}
	}
}

// send sends a message.
func (c *conn) send(m wire.Message) {
	c.mu.Lock()
	c.put(m)
	c.mu.Unlock()
	c.wake()
}

func (c *conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// write sends what there is to send, until the connection ends.
func (c *conn) write() {
	defer close(c.gone)
	var buf []byte
	for range c.ready {
		var ended bool
		buf, ended = c.take(buf[:0])
		c.nc.SetWriteDeadline(time.Now().Add(sendTime))
		if _, err := c.nc.Write(buf); err != nil || ended {
			c.nc.Close()
			return
		}
		if cap(buf) > maxBuffer {
			buf = nil
		}
	}
}

// take appends what there is to send.
func (c *conn) take(buf []byte) (_ []byte, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf = append(buf, c.out...)
	if c.out = c.out[:0]; cap(c.out) > defaultBuffer {
		c.out = nil
	}
	if c.until > 0 {
		c.seal()
		c.sentAt = c.until
	}
	buf = append(buf, c.sealed...)
	if c.sealed = c.sealed[:0]; cap(c.sealed) > defaultBuffer {
		c.sealed = nil
	}
	return buf, c.ended
}

// end sends the exit code of the program to the client, and waits a moment until that is done.
func (c *conn) end(code int) {
	c.mu.Lock()
	c.put(&wire.End{Code: int64(code)})
	c.ended = true
	c.mu.Unlock()
	c.wake()
	select {
	case <-c.gone:
	case <-time.After(beat):
	}
}

// close ends the connection.
func (c *conn) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.wake()
	select { // what was put before, such as a refusal, is sent
	case <-c.gone:
	case <-time.After(beat):
	}
	c.nc.Close()
}
