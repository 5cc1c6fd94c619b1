package loupe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// launchWeb has Loupe start the program, which requests some URLs first.
func launchWeb(t *testing.T, spec testtarget.Spec, opt loupe.Options, urls ...string) *web {
	t.Helper()
	w := &web{t: t}
	w.watch(&opt)
	w.target, w.session = startObserved(t, testcmd.Within(t, 0, testtarget.Build(t, spec), urls...), opt)
	w.read()
	return w
}

// startObserved has Loupe start a target.
func startObserved(t *testing.T, cmd *exec.Cmd, opt loupe.Options) (*testtarget.Process, *loupe.Session) {
	t.Helper()
	var s *loupe.Session
	target := testtarget.StartBy(t, cmd, func() (err error) {
		if s, err = attachTo(context.Background(), loupe.Command(cmd), opt); err != nil {
			return err
		}
		t.Cleanup(func() { s.Close() })
		return nil
	})
	return target, s
}

// peer is a server that stores the traceparent headers of each request.
type peer struct {
	url  string
	mu   sync.Mutex
	seen [][]string
}

func newPeer(t *testing.T) *peer {
	p := &peer{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen = append(p.seen, r.Header["Traceparent"])
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// TestInlineStarted has Loupe start programs that send requests before their function main, when the reader of the events has not begun:
// each one carries the context of its span, and so do requests that they send later.
func TestInlineStarted(t *testing.T) {
	for _, spec := range append(testtarget.Ends(t, webSpecs(t)), testtarget.Spec{Program: "web", Stripped: true, PIE: true}) {
		t.Run(spec.String(), func(t *testing.T) {
			p := newPeer(t)
			w := launchWeb(t, spec, loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{}}}, p.url+"/1", p.url+"/2")
			list := w.take(2)
			if len(p.seen) != 2 || list[0].Context.TraceID() == list[1].Context.TraceID() {
				t.Errorf("%q were received, spans %v", p.seen, describe(list))
			}
			for i, s := range list {
				if got, want := p.seen[i], []string{headerOf(s.Context)}; !slices.Equal(got, want) {
					t.Errorf("request %d has the headers %q, want %q", i, got, want)
				}
			}
			for _, as := range []string{"plain", "http2", "large"} {
				answers := w.request("/send?n=5&as="+as, incoming)
				check(t, w.take(1+2*5), answers, 5, incoming)
			}
			if counts, err := w.session.SpanCounts(); err != nil || counts.NoHeader != 0 || counts.Mismatched != 0 {
				t.Errorf("%+v, %v", counts, err)
			}
			if warnings := w.session.Warnings(); len(warnings) > 0 {
				t.Errorf("%q", warnings)
			}
		})
	}
}

// TestInlineGrown has programs send requests when their heaps have grown to new arenas since the probes were attached, or the program was
// started: the buffers of these requests are there, and get headers.
func TestInlineGrown(t *testing.T) {
	const grown = 320 // MB: five arenas
	for _, started := range []bool{false, true} {
		t.Run(fmt.Sprintf("started=%t", started), func(t *testing.T) {
			opt := loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{}}}
			var w *web
			if started {
				w = launchWeb(t, lastWeb(t)[0], opt)
			} else {
				w = observeWeb(t, testtarget.Start(t, testtarget.Build(t, lastWeb(t)[0])), opt)
			}
			for range 2 {
				if n, err := strconv.Atoi(w.request(fmt.Sprint("/grow/", grown/2), "")[0]); err != nil || n < 2*64<<20 {
					t.Errorf("the heap has grown by %d bytes, %v", n, err)
				}
				w.take(1)
				answers := w.request("/send?n=20&as=large", incoming)
				check(t, w.take(1+2*20), answers, 20, incoming)
			}
		})
	}
}

// TestInlineStartedUnknown has Loupe start a program whose heap must not be used. Its requests carry no headers, and Loupe says why.
func TestInlineStartedUnknown(t *testing.T) {
	t.Setenv("GODEBUG", "efence=1")
	p := newPeer(t)
	w := launchWeb(t, lastWeb(t)[0], loupe.Options{Engine: loupe.EngineInline, Spans: loupe.SpanOptions{Propagation: &loupe.Propagation{}}}, p.url)
	w.take(1)
	if len(p.seen) != 1 || len(p.seen[0]) != 0 {
		t.Errorf("%q were received", p.seen)
	}
	counts, err := w.session.SpanCounts()
	if err != nil || counts.NoHeader != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
	const why = "process %d: the pages of its heap are unknown: freed memory is unreadable with GODEBUG=efence=1"
	want := fmt.Sprintf("requests that the program sends carry no traceparent header: "+why, w.target.PID())
	for deadline := time.Now().Add(30 * time.Second); !slices.ContainsFunc(w.session.Warnings(), func(w event.Warning) bool { return w.Error() == want }); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("warnings %q, want %q", w.session.Warnings(), want)
		}
	}
}
