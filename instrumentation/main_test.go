package instrumentation_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/instrumentation"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// engine is the engine that all tests use which are not about one of them.
var engine = flag.String("engine", string(loupe.EngineUprobe), "engine to test: uprobe or inline")

// patient is how long a test waits for what happens soon.
const patient = 30 * time.Second

// webPath returns the path of an executable of program web.
func webPath(t *testing.T) string {
	t.Helper()
	return testtarget.Build(t, testtarget.Spec{Program: "web", Go: testtarget.Latest(), Stripped: true})
}

// A web is a process of program web.
type web struct {
	*testtarget.Process
	t          *testing.T
	plain, tls string // addresses
	client     *http.Client
}

func startWeb(t *testing.T, path string) *web {
	t.Helper()
	w := &web{Process: testtarget.Start(t, path), t: t}
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	t.Cleanup(w.client.CloseIdleConnections)
	w.locate()
	return w
}

// locate gets the addresses of the servers.
func (w *web) locate() {
	w.t.Helper()
	words := strings.Fields(w.Command("address"))
	w.plain, w.tls = words[1], words[2]
}

// get sends a request.
func (w *web) get(path string, header ...string) {
	w.t.Helper()
	req, err := http.NewRequest("GET", "http://"+w.plain+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// A watch is an Instrumentation, and what it has reported.
type watch struct {
	*instrumentation.Instrumentation
	t    *testing.T
	log  *logged
	done chan error // result of Run

	mu  sync.Mutex
	got []*spans.Span
}

// newWatch returns an Instrumentation with a handler that keeps the spans.
func newWatch(t *testing.T, options ...instrumentation.Option) *watch {
	t.Helper()
	w := &watch{t: t, log: &logged{}, done: make(chan error, 1)}
	all := append([]instrumentation.Option{instrumentation.WithEngine(loupe.Engine(*engine)), instrumentation.WithLogger(w.log.logger()),
		instrumentation.WithHandler(w.handle)}, options...)
	var err error
	if w.Instrumentation, err = instrumentation.New(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the targets are stopped
		w.Close()
		if t.Failed() {
			t.Log(w.log)
		}
	})
	return w
}

func (w *watch) handle(s *spans.Span) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got = append(w.got, s)
}

// run loads and runs.
func (w *watch) run() *watch {
	w.t.Helper()
	if err := w.Load(w.t.Context()); err != nil {
		w.t.Fatalf("%v\n%v", err, w.log)
	}
	go func() { w.done <- w.Run(context.Background()) }()
	return w
}

// end closes, and expects no error and no loss.
func (w *watch) end() instrumentation.Stats {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Error(err)
	}
	select {
	case err := <-w.done:
		if err != nil {
			w.t.Error(err)
		}
	case <-time.After(patient):
		w.t.Error("Run has not returned")
	}
	s := w.Stats()
	if c := s.Spans; c.Notes.Lost+c.Unlisted+c.Strays+c.Mismatched+s.LostEvents > 0 || s.Processes.Observed != 0 || c.Open != 0 || s.Waiting != 0 {
		w.t.Errorf("%+v", s)
	}
	return s
}

// take waits for n spans and returns them. No others follow.
func (w *watch) take(n int) []*spans.Span {
	w.t.Helper()
	until(w.t, fmt.Sprintf("%d spans", n), func() bool { return w.count() >= n })
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.got) != n {
		w.t.Fatalf("%d spans, want %d", len(w.got), n)
	}
	got := w.got
	w.got = nil
	return got
}

func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// servedBy expects n spans of a process that have a path.
func servedBy(t *testing.T, list []*spans.Span, pid int, path string, n int) {
	t.Helper()
	got := 0
	for _, s := range list {
		if s.PID == int32(pid) && attribute(s, "url.path") == path && s.Kind == trace.SpanKindServer && s.Name == "GET "+path {
			got++
		}
	}
	if got != n {
		t.Errorf("%d spans of process %d with path %s, want %d", got, pid, path, n)
	}
}

func attribute(s *spans.Span, key string) string {
	i := slices.IndexFunc(s.Attributes, func(kv keyValue) bool { return string(kv.Key) == key })
	if i < 0 {
		return ""
	}
	return s.Attributes[i].Value.String()
}

// until waits until a condition holds.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited for: %s", what)
		}
	}
}

// logged is the text of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) has(text string) bool { return strings.Contains(l.String(), text) }

// resources are the numbers of goroutines and open files of this process.
func resources(t *testing.T) (goroutines, files int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return numGoroutine(), len(list)
}
