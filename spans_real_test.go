package loupe_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// TestSpansRealPrograms compares the spans of servers that were not written for Loupe, under load, with their own metrics or access logs,
// count for count.
func TestSpansRealPrograms(t *testing.T) {
	own := map[string]func(t *testing.T, p *realtarget.Process) ledgerOf{"prometheus": prometheusRequests, "nats-server": natsRequests, "caddy": caddyRequests}
	for _, spec := range realtarget.Programs() {
		if own[spec.Name] == nil {
			continue
		}
		t.Run(spec.Name, func(t *testing.T) {
			if spec.Name != "caddy" {
				testtarget.Whole(t, "with servers other than caddy")
			}
			p := spec.Start(t)
			var mu sync.Mutex
			got := map[string]int{}
			book := own[spec.Name](t, p)
			s := attach(t, p.PID(), loupe.Options{Spans: loupe.SpanOptions{Handle: func(s *spans.Span) {
				mu.Lock()
				defer mu.Unlock()
				if key := book.key(s); key != "" {
					got[key]++
				}
			}}})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range s.Events() {
				}
			}()
			before := book.read()
			load := p.StartLoad()
			load.Await(t, 1000)
			if book.more != nil {
				book.more()
			}
			answered, err := load.Stop()
			if err != nil {
				t.Error(err)
			}
			want := book.read()
			for key, n := range before {
				if want[key] -= n; want[key] == 0 {
					delete(want, key)
				}
			}
			err = s.Detach()
			<-done
			c, countErr := s.SpanCounts()
			if err != nil || countErr != nil || c.Notes.Lost+c.Mismatched+c.Unobserved != 0 {
				t.Errorf("%v, %v, %+v", err, countErr, c)
			}
			t.Logf("%d requests answered; spans %v", answered, got)
			if !maps.Equal(got, want) || len(want) == 0 {
				t.Errorf("spans %v, want %v", got, want)
			}
		})
	}
}

// A ledgerOf is the account of a program of the requests that it has served, by a key that spans have, too.
type ledgerOf struct {
	read func() map[string]int
	key  func(*spans.Span) string // empty: the span is not compared
	more func()                   // sends requests that the load does not; may be nil
}

// prometheusRequests are the requests of the API, by path and status, in Prometheus' own metric.
func prometheusRequests(t *testing.T, p *realtarget.Process) ledgerOf {
	const api = "/api/v1/"
	return ledgerOf{
		read: func() map[string]int {
			list := map[string]int{}
			for labels, n := range p.Counters("prometheus_http_requests_total") {
				var code, handler string
				if _, err := fmt.Sscanf(strings.ReplaceAll(labels, ",", " "), "code=%q handler=%q", &code, &handler); err != nil {
					t.Fatalf("labels %s: %v", labels, err)
				}
				if strings.HasPrefix(handler, api) {
					list[handler+" "+code] = n
				}
			}
			return list
		},
		key: func(s *spans.Span) string {
			a := attributes(s)
			if s.Kind != trace.SpanKindServer || !strings.HasPrefix(a["url.path"], api) {
				return ""
			}
			return a["url.path"] + " " + a["http.response.status_code"]
		},
	}
}

// natsRequests are the requests of pages about the server, by path, in the server's own statistics. It also sends them.
func natsRequests(t *testing.T, p *realtarget.Process) ledgerOf {
	const about = "/varz" // the page with the statistics
	return ledgerOf{
		read: func() map[string]int {
			var page struct {
				Stats map[string]int `json:"http_req_stats"`
			}
			if err := json.Unmarshal([]byte(p.Monitor(about)), &page); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(page.Stats, func(path string, n int) bool { return n == 0 || path == about })
			return page.Stats
		},
		key: func(s *spans.Span) string {
			path := attributes(s)["url.path"]
			if s.Kind != trace.SpanKindServer || path == about || strings.HasPrefix(path, "/debug/") {
				return ""
			}
			return path
		},
		more: func() {
			for range 100 {
				for _, path := range []string{"/connz", "/routez", "/subsz", "/healthz"} {
					p.Monitor(path)
				}
			}
		},
	}
}

// caddyRequests are the requests of the site, by method, path and status, in Caddy's access log.
func caddyRequests(t *testing.T, p *realtarget.Process) ledgerOf {
	return ledgerOf{
		read: func() map[string]int {
			list := map[string]int{}
			file, err := os.Open(p.AccessLog())
			if os.IsNotExist(err) {
				return list
			}
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			lines := bufio.NewScanner(file)
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				var line struct {
					Request struct{ Method, URI string }
					Status  int
				}
				if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
					t.Fatalf("%s: %v", lines.Bytes(), err)
				}
				u, err := url.ParseRequestURI(line.Request.URI)
				if err != nil {
					t.Fatal(err)
				}
				list[fmt.Sprintf("%s %s %d", line.Request.Method, u.Path, line.Status)]++
			}
			return list
		},
		key: func(s *spans.Span) string {
			a := attributes(s)
			if s.Kind != trace.SpanKindServer || strings.HasPrefix(a["url.path"], "/debug/") || a["url.path"] == "/metrics" {
				return ""
			}
			return a["http.request.method"] + " " + a["url.path"] + " " + a["http.response.status_code"]
		},
	}
}
