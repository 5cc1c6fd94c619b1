package nethttp_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestSecret has a program work in secret mode (package runtime/secret): its operations are reported without names and statements.
func TestSecret(t *testing.T) {
	for _, release := range []string{"1.26.11", testtarget.Latest()} {
		if release != testtarget.Latest() && !testtarget.Requested() {
			t.Log(testtarget.LeftOut + "Go " + release)
			continue
		}
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			spec := testtarget.Spec{Program: "vault", Go: release, Stripped: true, Experiment: "runtimesecret"}
			t.Run(fmt.Sprintf("%s/%s", engine, spec), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF requires root")
				}
				testSecret(t, testtarget.Start(t, testtarget.Build(t, spec)), engine, release)
			})
		}
	}
}

func testSecret(t *testing.T, target *testtarget.Process, engine loupe.Engine, release string) {
	v := watch(t, target, engine)
	v.expect("open", "walnut", 6, "net/http client GET", "net/http server GET /open/", "database/sql client UPDATE walnut", "net/http server GET /open")
	hidden := []string{"net/http client HTTP", "net/http server GET /open/", "database/sql client other_sql"}
	v.expect("secret", "hazel", 1, append(hidden, "net/http server GET /secret")...)
	if strings.HasPrefix(release, "1.26") { // its goroutines do not inherit the mode
		hidden = []string{"net/http client GET", "net/http server GET /open/", "database/sql client UPDATE acorn"}
		v.expect("child", "acorn", 6, append(hidden, "net/http server GET /child")...)
		return
	}
	v.expect("child", "acorn", 1, append(hidden, "net/http server GET /child")...)
}

// A watched is a program whose spans are collected.
type watched struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	spans []*spans.Span
}

// watch observes a program.
func watch(t *testing.T, target *testtarget.Process, engine loupe.Engine) *watched {
	t.Helper()
	w := &watched{t: t, url: "http://" + strings.Fields(target.Command("address"))[1]}
	ctx, stop := context.WithCancel(context.Background())
	s, err := loupe.Attach(ctx, loupe.PID(target.PID()), loupe.Options{Engine: engine, Spans: loupe.SpanOptions{Handle: func(s *spans.Span) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.spans = append(w.spans, s)
	}}})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		for range s.Events() {
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		if n, err := s.SpanCounts(); err != nil || n.Mismatched+n.Strays+n.Unobserved != 0 {
			t.Errorf("counts: %+v, %v", n, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// expect requests a path with a word. The word is in a number of texts of the spans.
func (w *watched) expect(path, word string, texts int, want ...string) {
	w.t.Helper()
	resp, err := http.Get(w.url + "/" + path + "?word=" + word)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	var list []*spans.Span
	for deadline := time.Now().Add(20 * time.Second); len(list) < len(want) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		list = w.spans
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.spans = nil
	w.mu.Unlock()
	names, found := map[string]int{}, 0
	for _, s := range list {
		names[fmt.Sprintf("%s %s %s", s.Library, s.Kind, s.Name)]++
		all := []string{s.Name, s.Message}
		for _, kv := range s.Attributes {
			all = append(all, kv.Value.String())
		}
		for _, text := range all {
			if strings.Contains(text, word) {
				found++
			}
		}
		if s.Kind != trace.SpanKindServer && s.Context.TraceID() != list[len(list)-1].Context.TraceID() {
			w.t.Errorf("%s: %s is in another trace", path, s.Name)
		}
	}
	for _, text := range want {
		names[text]--
	}
	for text, n := range names {
		if n != 0 {
			w.t.Errorf("%s: %d more of %q", path, n, text)
		}
	}
	if found != texts {
		w.t.Errorf("%s: the word is in %d texts, want %d", path, found, texts)
	}
}
