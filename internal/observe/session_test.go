package observe

import (
	"context"
	"errors"
	"math/rand"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// agent listens as an agent in a program does, for one client, and returns the path of its socket.
func agent(t *testing.T, serve func(c net.Conn, r *wire.Reader)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "observe") // shorter than that of the test
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		serve(c, wire.NewReader(c, 0))
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		os.RemoveAll(dir)
	})
	return path
}

func say(c net.Conn, messages ...wire.Message) {
	var b []byte
	for _, m := range messages {
		b = wire.Append(b, m)
	}
	c.Write(b)
}

var welcome = &wire.Welcome{Version: wire.Version, GoVersion: "go1.27.4", Clock: 100, Unix: 1_000_000_100, Events: 1<<wire.NumEvents - 1, Reasons: []string{"", "chan receive"}}

// events makes a message.
func events(until int64, lost uint64, dropped []uint64, records ...wire.Record) *wire.Events {
	m := &wire.Events{Until: until, Lost: lost, Dropped: dropped}
	before := int64(0)
	for i := range records {
		m.Encoded = wire.AppendRecord(m.Encoded, &records[i], before)
		before = records[i].Time
	}
	return m
}

// begin greets a client, starts the stream with the goroutine 1, and returns when the client has asked for the stream.
func begin(c net.Conn, r *wire.Reader) {
	r.Next()
	say(c, welcome)
	r.Next()
	say(c, &wire.Started{Time: 1000}, &wire.Goroutines{List: []wire.Goroutine{{ID: 1, State: wire.Running, Thread: 77}}}, &wire.GoroutinesEnd{Time: 1100, Agents: 2})
}

var options = Options{Kinds: Kinds(), System: true}

func open(t *testing.T, path string) *Session {
	t.Helper()
	s, err := Open(context.Background(), path, 0, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// collect returns copies of the events of a session.
func collect(s *Session) (list []event.Event) {
	for e := range s.Events() {
		list = append(list, *e)
	}
	return list
}

// TestOpenGarbage lets an agent answer what no agent answers.
func TestOpenGarbage(t *testing.T) {
	for name, test := range map[string]struct {
		serve   func(c net.Conn, r *wire.Reader)
		garbage bool
		want    string
	}{
		"silence":         {func(c net.Conn, r *wire.Reader) {}, false, "the agent does not answer"},
		"text":            {func(c net.Conn, r *wire.Reader) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, true, "the agent does not answer"},
		"half a message":  {func(c net.Conn, r *wire.Reader) { c.Write(wire.Append(nil, welcome)[:20]) }, false, "the agent does not answer"},
		"a long message":  {func(c net.Conn, r *wire.Reader) { c.Write([]byte{0xff, 0xff, 0xff, 0xff, 'W'}) }, true, "the agent does not answer"},
		"another message": {func(c net.Conn, r *wire.Reader) { say(c, &wire.Started{}) }, true, "unexpected *wire.Started"},
		"a refusal":       {func(c net.Conn, r *wire.Reader) { say(c, &wire.Refused{Why: "no"}) }, false, "the agent refuses the connection: no"},
		"a late refusal":  {func(c net.Conn, r *wire.Reader) { r.Next(); say(c, welcome, &wire.Refused{Why: "no hooks"}) }, false, "the agent refuses: no hooks"},
		"no Started":      {func(c net.Conn, r *wire.Reader) { r.Next(); say(c, welcome, &wire.End{}) }, true, "unexpected *wire.End"},
		"an end":          {func(c net.Conn, r *wire.Reader) { r.Next(); say(c, welcome); r.Next() }, false, "the agent does not begin"},
	} {
		t.Run(name, func(t *testing.T) {
			path := agent(t, func(c net.Conn, r *wire.Reader) {
				test.serve(c, r)
				c.(*net.UnixConn).CloseWrite()
				for { // until the client has gone
					if _, err := r.Next(); err != nil {
						return
					}
				}
			})
			s, err := Open(context.Background(), path, 0, options)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if errors.Is(err, wire.ErrGarbage) != test.garbage || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, expected %s", err, test.want)
			}
		})
	}
}

// TestStreamGarbage lets an agent send garbage after events. What came before is yielded, and the session has an error.
func TestStreamGarbage(t *testing.T) {
	good := events(10_000_000, 0, nil, wire.Record{Event: wire.GoCreate, Time: 2000, G: 7, By: 1, P: -1})
	for name, bytes := range map[string][]byte{
		"an unknown type":    {1, 0, 0, 0, '?'},
		"a client's message": wire.Append(nil, &wire.Hello{Magic: "x"})[:3],
		"an unknown event":   wire.Append(nil, &wire.Events{Until: 11_000_000, Encoded: []byte{byte(wire.NumEvents), 0}}),
		"half an event":      wire.Append(nil, &wire.Events{Until: 11_000_000, Encoded: []byte{byte(wire.GoCreate), 2, 0x80}}),
		"a refusal":          wire.Append(nil, &wire.Refused{Why: "no"}),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
				begin(c, r)
				say(c, good)
				c.Write(bytes)
			}))
			list := collect(s)
			if len(list) != 2 || list[0].Kind != event.GoStatus || list[1].Kind != event.GoCreate || list[1].G != 7 || list[1].Time != 1_000_002_000 {
				t.Errorf("events %+v", list)
			}
			// The process of the agent is this one, which has not ended.
			if err := s.Err(); err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v", err)
			} else if (name == "an unknown type" || strings.Contains(name, "event")) && !errors.Is(err, wire.ErrGarbage) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestEnds lets the program end, and the agent break the connection.
func TestEnds(t *testing.T) {
	for _, says := range []bool{true, false} {
		s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
			begin(c, r)
			say(c, events(10_000_000, 0, nil, wire.Record{Event: wire.GoEnd, Time: 2000, G: 1, P: -1}))
			if says {
				say(c, &wire.End{Code: 2})
			}
		}))
		list := collect(s)
		if len(list) != 2 || list[1].Kind != event.GoDestroy {
			t.Errorf("events %+v", list)
		}
		if err := s.Err(); (err == nil) != says {
			t.Errorf("the agent says that the program ends: %v, error %v", says, err)
		}
		if s.Agents() != 2 {
			t.Errorf("%d goroutines of agents", s.Agents())
		}
	}
}

// TestMerged lets an agent send the records of several threads, each in order, in messages that overlap. The events come in the order of their
// times.
func TestMerged(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	const rounds, width = 50, 4 * slack
	var want []int64
	s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
		begin(c, r)
		for round := int64(1); round <= rounds; round++ {
			var records []wire.Record
			for range 40 { // a record may be up to one message late
				at := round*width - rnd.Int63n(width)
				records = append(records, wire.Record{Event: wire.GoStart, Time: at, G: uint64(rnd.Intn(5) + 1), P: 1, Arg: 5})
				want = append(want, at)
			}
			say(c, events(round*width, 0, nil, records...))
		}
		say(c, &wire.End{})
	}))
	var got []int64
	for _, e := range collect(s) {
		if e.Kind == event.GoStart {
			got = append(got, e.Time-1_000_000_000)
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d events, expected %d, sorted: %v", len(got), len(want), slices.IsSorted(got))
	}
	if list := s.Warnings(); slices.ContainsFunc(list, func(w event.Warning) bool { return w.Kind == event.WarnTimes }) {
		t.Errorf("warnings %v", list)
	}
	if stats := s.Stats(); stats.Kinds[event.GoStart].Received != uint64(len(want)) || stats.Lost != 0 {
		t.Errorf("statistics %+v", stats)
	}
}

// TestLate checks records that are later than the agent says is possible: none is lost, and times do not go back.
func TestLate(t *testing.T) {
	var o order
	rec := func(at int64) wire.Record { return wire.Record{Event: wire.GoStart, Time: at} }
	o.add(&wire.Events{Until: 10 * slack, Records: []wire.Record{rec(9 * slack), rec(8 * slack)}})
	o.add(&wire.Events{Until: 20 * slack})
	if list := o.take(o.horizon()); len(list) != 2 || list[0].Time != 8*slack || list[1].Time != 9*slack {
		t.Errorf("first %+v", list)
	}
	o.add(&wire.Events{Until: 30 * slack, Records: []wire.Record{rec(7 * slack), rec(15 * slack)}})
	if list := o.take(o.horizon()); len(list) != 2 || list[0].Time != 9*slack || list[1].Time != 15*slack || o.late != 1 {
		t.Errorf("then %+v, late %d", list, o.late)
	}
}

// TestLoss lets an agent lose events. The counts are those of the agent, and the gap is marked where it begins and ends.
func TestLoss(t *testing.T) {
	start := func(at int64) wire.Record { return wire.Record{Event: wire.GoStart, Time: at, G: 1, P: 0, Arg: 5} }
	dropped := make([]uint64, wire.NumEvents)
	dropped[wire.GoStart] = 3
	s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
		begin(c, r)
		say(c, events(10*slack, 0, nil, start(5*slack)), events(20*slack, 0, nil, start(15*slack)), events(30*slack, 4, dropped, start(25*slack)),
			events(40*slack, 4, dropped, start(35*slack)), events(50*slack, 4, dropped), &wire.End{})
	}))
	var missing, starts int64
	var marks []int
	for i, e := range collect(s) {
		switch e.Kind {
		case event.Lost:
			missing += e.Value
			marks = append(marks, i)
		case event.GoStart:
			starts++
		}
	}
	if missing != 7 || starts != 4 || len(marks) != 2 {
		t.Errorf("missing %d, events %d, marks at %d", missing, starts, marks)
	}
	if stats := s.Stats(); stats.Lost != 7 || stats.Kinds[event.GoStart].Lost != 3 || stats.Kinds[event.GoStart].Produced != 7 {
		t.Errorf("statistics %+v", stats)
	}
}

// TestRequests asks an agent that answers one request, and not the next.
func TestRequests(t *testing.T) {
	s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
		begin(c, r)
		for {
			m, err := r.Next()
			if err != nil {
				return
			}
			if m, ok := m.(*wire.List); ok && m.Request == 1 {
				say(c, &wire.Goroutines{Request: 99}, &wire.Goroutines{Request: 1, List: []wire.Goroutine{{ID: 3}, {ID: 4, System: true}}}, &wire.GoroutinesEnd{Request: 1})
			}
		}
	}))
	if ids, err := s.Alive(); err != nil || !slices.Equal(ids, []uint64{3, 4}) {
		t.Errorf("alive %d: %v", ids, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := s.Memory(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("memory: %v", err)
	}
}

// TestSlowConsumer closes a session whose events nobody reads, while the agent sends more than fits.
func TestSlowConsumer(t *testing.T) {
	s := open(t, agent(t, func(c net.Conn, r *wire.Reader) {
		begin(c, r)
		b := wire.Append(nil, events(10*slack, 0, nil, wire.Record{Event: wire.GoStart, Time: 5 * slack, G: 1, P: 0}))
		for {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}))
	for len(s.in) < cap(s.in) {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if list := collect(s); len(list) > queued+100 {
		t.Errorf("%d events after Close", len(list))
	}
}
