package functions_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A program is a server that was not written for Loupe.
type program struct {
	functions []string
	calls     string                                     // the function whose calls the program counts itself
	requests  int64                                      // of the load
	counted   func(*testing.T, *realtarget.Process) int  // the program's own count
	omits     func(*spans.Span) bool                     // of a call that the program does not count; may be nil
	check     func(*testing.T, *spans.Span, *spans.Span) // of a call and its parent, which may be nil
}

var programs = map[string]program{
	"caddy": {
		functions: []string{"github.com/caddyserver/caddy/v2/modules/caddyhttp.(*Server).ServeHTTP",
			"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver.(**).ServeHTTP"},
		calls: "github.com/caddyserver/caddy/v2/modules/caddyhttp.(*Server).ServeHTTP", requests: 500, counted: caddyRequests,
		check: func(t *testing.T, s, parent *spans.Span) {
			if parent == nil || parent.Kind != trace.SpanKindServer && !strings.HasSuffix(parent.Name, "caddyhttp.(*Server).ServeHTTP") || s.Rule != spans.RuleGoroutine {
				t.Errorf("%+v in %+v", s, parent)
			}
		},
	},
	"nats-server": {
		functions: []string{"github.com/nats-io/nats-server/v2/server.(*client).processInboundClientMsg"},
		calls:     "github.com/nats-io/nats-server/v2/server.(*client).processInboundClientMsg", requests: 100, counted: natsMessages, omits: aboutClients,
		check: func(t *testing.T, s, parent *spans.Span) {
			if parent != nil || s.Ending != spans.Returned {
				t.Errorf("%+v in %+v", s, parent)
			}
		},
	},
}

// caddyRequests returns the number of requests in the access log.
func caddyRequests(t *testing.T, p *realtarget.Process) int {
	t.Helper()
	file, err := os.Open(p.AccessLog())
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	n := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		n++
	}
	return n
}

// natsMessages returns the number of messages that the server has received.
func natsMessages(t *testing.T, p *realtarget.Process) int {
	t.Helper()
	var page struct {
		Messages int `json:"in_msgs"`
	}
	if err := json.Unmarshal([]byte(p.Monitor("/varz")), &page); err != nil {
		t.Fatal(err)
	}
	return page.Messages
}

// aboutClients reports whether a message is one that the server sends to itself, about its clients. Those of the load are short.
func aboutClients(s *spans.Span) bool {
	for _, a := range s.Attributes {
		if n := 0; a.Key == "loupe.go.arg.msg" {
			_, err := fmt.Sscanf(a.Value.AsString(), "[]uint8, length %d", &n)
			return err == nil && n > 100
		}
	}
	return false
}

// TestRealPrograms compares the calls of functions of servers under load with what the servers count.
func TestRealPrograms(t *testing.T) {
	testtarget.Whole(t, "functions of real servers")
	for _, spec := range realtarget.Programs() {
		p, ok := programs[spec.Name]
		if !ok {
			continue
		}
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			t.Run(spec.Name+"/"+string(engine), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF requires root")
				}
				p.test(t, spec, engine)
			})
		}
	}
}

func (p *program) test(t *testing.T, spec realtarget.Spec, engine loupe.Engine) {
	server := spec.Start(t)
	var mu sync.Mutex
	var list []*spans.Span
	handle := func(s *spans.Span) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, s)
	}
	s, err := loupe.Attach(context.Background(), loupe.PID(server.PID()),
		loupe.Options{Engine: engine, BufferBytes: 64 << 20, Spans: loupe.SpanOptions{Handle: handle, NoWork: true, Functions: p.functions}})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range s.Warnings() {
		t.Log(w)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range s.Events() {
		}
	}()
	before := p.counted(t, server)
	load := server.StartLoad()
	load.Await(t, p.requests)
	if _, err := load.Stop(); err != nil {
		t.Error(err)
	}
	want := p.counted(t, server) - before
	err = errors.Join(s.Detach(), s.Close())
	<-done
	c, countErr := s.SpanCounts()
	if err != nil || countErr != nil || c.Notes.Lost+c.Mismatched+c.Unobserved != 0 {
		t.Errorf("%v, %v, %+v", err, countErr, c)
	}
	byID, got := map[trace.SpanID]*spans.Span{}, 0
	for _, s := range list {
		byID[s.Context.SpanID()] = s
	}
	for _, s := range list {
		if s.Name == p.calls && (p.omits == nil || !p.omits(s)) {
			got++
		}
		if s.Kind == trace.SpanKindInternal && slices.Contains(p.functions, s.Name) {
			p.check(t, s, byID[s.Parent.SpanID()])
		}
	}
	t.Logf("%d calls, %d spans", got, len(list))
	if got != want || want == 0 {
		t.Errorf("%d calls of %s, want %d", got, p.calls, want)
	}
}
