package observe

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// The program of these tests has no hooks, so a stream cannot be opened. The tests of the root package run the agent in programs that have.

// listen starts an agent that listens on a socket of the test.
func listen(t *testing.T) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "observe") // shorter than that of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{listener: l, path: path, conns: map[*conn]bool{}}
	go a.accept()
	t.Cleanup(func() { a.end(0) })
	return a
}

// clients returns the number of connections.
func (a *agent) clients() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.conns)
}

// awaitClients returns when the agent has a number of connections.
func awaitClients(t *testing.T, a *agent, n int) {
	t.Helper()
	for begin := time.Now(); a.clients() != n; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("%d clients, expected %d", a.clients(), n)
		}
	}
}

// client connects to the agent and greets it.
func client(t *testing.T, a *agent) (net.Conn, *wire.Reader) {
	t.Helper()
	c, err := net.Dial("unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	say(t, c, &wire.Hello{Magic: wire.Magic, Version: wire.Version})
	return c, wire.NewReader(c, 0)
}

func say(t *testing.T, c net.Conn, m wire.Message) {
	t.Helper()
	if _, err := c.Write(wire.Append(nil, m)); err != nil {
		t.Fatal(err)
	}
}

// next returns the next message, which must have a type.
func next[M wire.Message](t *testing.T, r *wire.Reader) (m M) {
	t.Helper()
	got, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	m, ok := got.(M)
	if !ok {
		t.Fatalf("%T %+v, expected %T", got, got, m)
	}
	return m
}

// TestClients connects the maximum of clients, and one more. Each of them can ask.
func TestClients(t *testing.T) {
	a := listen(t)
	var conns []net.Conn
	var readers []*wire.Reader
	for i := 0; i < maxClients; i++ {
		c, r := client(t, a)
		if w := next[*wire.Welcome](t, r); w.PID != uint64(os.Getpid()) || w.Events != uint64(allEvents) {
			t.Errorf("welcome %+v", w)
		}
		conns, readers = append(conns, c), append(readers, r)
	}
	for i, c := range conns {
		say(t, c, &wire.ReadMemory{Request: uint64(i + 7)})
	}
	for i, r := range readers {
		if m := next[*wire.Memory](t, r); m.Request != uint64(i+7) || m.Procs == 0 {
			t.Errorf("client %d: memory %+v", i, m)
		}
	}
	c, err := net.Dial("unix", a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if why := next[*wire.Refused](t, wire.NewReader(c, 0)).Why; !strings.Contains(why, "maximum of clients: 4") {
		t.Errorf("refused: %s", why)
	}
	conns[0].Close() // one leaves, and another one comes
	awaitClients(t, a, maxClients-1)
	_, r := client(t, a)
	next[*wire.Welcome](t, r)
	a.end(3)
	for _, r := range append(readers[1:], r) {
		if m := next[*wire.End](t, r); m.Code != 3 {
			t.Errorf("end %+v", m)
		}
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
	awaitClients(t, a, 0)
}

// TestGarbage sends what is no message of a client, and messages that are not expected. The agent ends the connection, and serves others.
func TestGarbage(t *testing.T) {
	a := listen(t)
	hello := wire.Append(nil, &wire.Hello{Magic: wire.Magic, Version: wire.Version})
	for name, bytes := range map[string][]byte{
		"nothing":          nil,
		"text":             []byte("GET / HTTP/1.1\r\n\r\n"),
		"another magic":    wire.Append(nil, &wire.Hello{Magic: "loupe", Version: wire.Version}),
		"another version":  wire.Append(nil, &wire.Hello{Magic: wire.Magic, Version: wire.Version + 1}),
		"no hello":         wire.Append(nil, &wire.Stop{}),
		"half a message":   hello[:len(hello)-1],
		"a long message":   append(hello[:len(hello):len(hello)], 0xff, 0xff, 0xff, 0x7f, 's'),
		"an agent's":       append(hello[:len(hello):len(hello)], wire.Append(nil, &wire.Started{Time: 1})...),
		"hello twice":      append(hello[:len(hello):len(hello)], hello...),
		"a malformed Stop": append(hello[:len(hello):len(hello)], 2, 0, 0, 0, 'p', 0),
		"no hooks":         append(hello[:len(hello):len(hello)], wire.Append(nil, &wire.Start{Events: 1 << wire.GoStart})...),
	} {
		c, err := net.Dial("unix", a.path)
		if err != nil {
			t.Fatal(err)
		}
		c.Write(bytes)
		c.(*net.UnixConn).CloseWrite()
		answer, err := io.ReadAll(c)
		c.Close()
		if err != nil && !strings.Contains(err.Error(), "reset by peer") { // the agent has not read everything
			t.Errorf("%s: %v", name, err)
		}
		if refused := strings.Contains(string(answer), "version"); name == "another version" && !refused {
			t.Errorf("%s: %q", name, answer)
		}
	}
	awaitClients(t, a, 0)
	_, r := client(t, a)
	next[*wire.Welcome](t, r)
}

// streaming returns a connection with a stream, as far as a program without hooks has one, and the client's side of it.
func streaming(t *testing.T, limit int) (*conn, net.Conn) {
	t.Helper()
	server, client := net.Pipe() // without a buffer
	t.Cleanup(func() { client.Close() })
	c := newConn(server)
	c.mask, c.started, c.limit = uint64(allEvents), 1, limit
	go c.write()
	t.Cleanup(c.close)
	return c, client
}

// batch returns records of a time.
func batch(at int64) []glti.StreamRecord {
	list := make([]glti.StreamRecord, 100)
	for i := range list {
		list[i] = glti.StreamRecord{Event: glti.EvGoStart, Time: at + int64(i), G: glti.G{Addr: 1, ID: uint64(i + 1)}}
	}
	return list
}

// TestStalledClient writes events for a client that reads nothing. The writer does not wait for it; what has no room is counted, and the
// client gets the counts when it reads again.
func TestStalledClient(t *testing.T) {
	const batches, limit = 2000, 64 << 10
	c, client := streaming(t, limit)
	for i := int64(0); i < batches; i++ {
		c.sink(batch(1000*(i+1)), 1000*(i+2))
	}
	c.mu.Lock()
	dropped := c.dropped[wire.GoStart]
	held := len(c.sealed) + len(c.events)
	c.mu.Unlock()
	if dropped == 0 || held > 2*limit+maxEvents {
		t.Errorf("%d events dropped, %d bytes are held", dropped, held)
	}
	r := wire.NewReader(client, 0)
	var received, last uint64
	for until := int64(0); until < 1000*(batches+1); {
		m := next[*wire.Events](t, r)
		until = m.Until
		for _, rec := range m.Records {
			if uint64(rec.Time) < last {
				t.Fatalf("time %d after %d", rec.Time, last)
			}
			last = uint64(rec.Time)
		}
		received += uint64(len(m.Records))
		if m.Sent[wire.GoStart] != received {
			t.Fatalf("the agent has sent %d, received %d", m.Sent[wire.GoStart], received)
		}
		dropped = m.Dropped[wire.GoStart]
	}
	if received+dropped != 100*batches {
		t.Errorf("received %d, dropped %d, of %d", received, dropped, 100*batches)
	}
}

// TestLostClient writes events for a client that has gone.
func TestLostClient(t *testing.T) {
	c, client := streaming(t, 1<<10)
	c.sink(batch(1000), 2000)
	client.Close()
	<-c.gone
	for i := int64(2); i < 100; i++ {
		c.sink(batch(1000*i), 1000*(i+1))
	}
	if err := c.answer(&wire.GoroutinesEnd{}); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped[wire.GoStart] == 0 {
		t.Error("no event is dropped")
	}
}

// TestNotStarted checks that nothing is sent from before the stream began, and no events that the client has not selected.
func TestNotStarted(t *testing.T) {
	c, client := streaming(t, 1<<20)
	c.mask, c.started = 1<<wire.GoStart, 5000
	records := append(batch(4950), glti.StreamRecord{Event: glti.EvGoEnd, Time: 6000, G: glti.G{Addr: 1, ID: 1}})
	go c.sink(records, 7000)
	m := next[*wire.Events](t, wire.NewReader(client, 0))
	if len(m.Records) != 50 || m.Records[0].Time != 5000 {
		t.Errorf("records %s", fmt.Sprint(m.Records))
	}
}
