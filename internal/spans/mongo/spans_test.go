package mongo_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/mongo"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of the driver, with the oldest Go release that builds it.
type version struct{ name, release, tags string }

var versions = []version{{"1.17", "1.19.13", "mongo1"}, {"2.0", "1.19.13", ""}, {"2.5", "1.23.12", ""}, {"2.10", "1.25.14", ""}}

// specs returns the builds of target curator. Unless LOUPE_RELEASES chooses all releases, it is one of each of the oldest and the newest
// version of the current module.
func specs(t *testing.T) (list []testtarget.Spec) {
	spec := func(v version, release string, stripped bool) testtarget.Spec {
		return testtarget.Spec{Program: "curator", Go: release, Stripped: stripped, Flags: "-modfile=mongo-" + v.name + ".mod", Tags: v.tags}
	}
	if !testtarget.Requested() {
		t.Log(testtarget.LeftOut + "versions of the MongoDB driver other than the oldest and the newest, and other releases")
		return []testtarget.Spec{spec(versions[1], testtarget.OrLatest(t, versions[1].release), false), spec(versions[3], testtarget.Latest(), true)}
	}
	for _, v := range versions {
		for _, b := range testtarget.Variants(t, testtarget.Since(v.release)...) {
			list = append(list, spec(v, b.Go, b.Stripped))
		}
	}
	return list
}

// A curator is a target that is observed.
type curator struct {
	*testtarget.Process
	session    *loupe.Session
	t          *testing.T
	host, port string // of the server
	done       sync.WaitGroup
	all        []*spans.Span
}

// each runs a test with each engine on each build.
func each(t *testing.T, list []testtarget.Spec, test func(t *testing.T, c *curator)) {
	for _, spec := range list {
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			t.Run(string(engine)+"/"+spec.String(), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				c := &curator{Process: testtarget.Start(t, testtarget.Build(t, spec)), t: t}
				var err error
				if c.host, c.port, err = net.SplitHostPort(c.Command("address")); err != nil {
					t.Fatal(err)
				}
				c.observe(engine)
				test(t, c)
			})
		}
	}
}

func (c *curator) do(command, answer string) {
	c.t.Helper()
	got := c.Command(command)
	if want, ok := strings.CutSuffix(answer, "..."); ok && strings.HasPrefix(got, want) {
		return
	}
	if got != answer {
		c.t.Errorf("%s: answer %q, want %q", command, got, answer)
	}
}

// observe begins to observe the target.
func (c *curator) observe(engine loupe.Engine) {
	c.t.Helper()
	var err error
	c.session, err = loupe.Attach(context.Background(), loupe.PID(c.PID()), loupe.Options{Engine: engine, BufferBytes: 16 << 20,
		Spans: loupe.SpanOptions{Handle: func(s *spans.Span) { c.all = append(c.all, s) }}})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, w := range c.session.Warnings() {
		if w.Kind != event.WarnTimes && w.Kind != event.WarnState { // not every machine has a reliable counter, or is idle
			c.t.Errorf("warning %q", w)
		}
	}
	c.done.Go(func() {
		for range c.session.Events() {
		}
	})
}

// end returns the spans of the driver in the order of their ends.
func (c *curator) end() []*spans.Span {
	c.t.Helper()
	if err := c.session.Detach(); err != nil {
		c.t.Error(err)
	}
	c.done.Wait()
	n, err := c.session.SpanCounts()
	if err != nil || n.Begun != n.Ended || n.Mismatched > 0 || n.Notes.Lost > 0 || n.Notes.Garbled > 0 || n.Notes.Full > 0 || n.Notes.Unreadable > 0 || n.Notes.NotRead > 0 {
		c.t.Errorf("%+v, %v", n, err)
	}
	if err := c.session.Close(); err != nil {
		c.t.Error(err)
	}
	return slices.DeleteFunc(slices.Clone(c.all), func(s *spans.Span) bool { return s.Library != mongo.Library })
}

// text returns what a test expects of a span.
func (c *curator) text(s *spans.Span) string {
	c.t.Helper()
	var b strings.Builder
	b.WriteString(s.Name)
	for _, kv := range s.Attributes {
		fmt.Fprintf(&b, " | %s=%s", strings.TrimPrefix(string(kv.Key), "db."), kv.Value.String())
	}
	if s.Status == codes.Error {
		b.WriteString(" | failed")
	}
	if s.Ending != spans.Returned {
		fmt.Fprintf(&b, " | ending %d", s.Ending)
	}
	if s.Kind != trace.SpanKindClient || s.End < s.Start || time.Duration(s.End-s.Start) > time.Minute {
		c.t.Errorf("%+v", s)
	}
	text := strings.Replace(b.String(), " | server.address="+c.host+" | server.port="+c.port, " | at the server", 1)
	return strings.Replace(text, " | system.name=mongodb", "", 1)
}

// on returns the span of a command on a collection.
func on(name, collection string) string {
	return name + " " + collection + " | namespace=museum | operation.name=" + name + " | collection.name=" + collection + " | at the server"
}

func failed(span, code string) string {
	return span + " | response.status_code=" + code + " | error.type=" + code + " | failed"
}

func failedBy(span, typ string) string { return span + " | error.type=" + typ + " | failed" }

// A step is a command, what the target must answer, and the spans. A type that ends with dots is one of several.
type step struct {
	command, answer string
	want            []string
}

var steps = []step{
	{"do insert halls", "ok", []string{on("insert", "halls")}},
	{"do find halls", "ok", []string{on("find", "halls"), on("getMore", "halls")}},
	{"do one halls", "ok", []string{on("find", "halls"), on("killCursors", "halls")}},
	{"do update halls", "ok", []string{on("update", "halls")}},
	{"do delete halls", "ok", []string{on("delete", "halls")}},
	{"do aggregate halls", "ok", []string{on("aggregate", "halls")}},
	{"do count halls", "ok", []string{on("aggregate", "halls")}},
	{"do create halls", "ok", []string{on("create", "halls")}},
	{"do ping -", "ok", []string{"ping museum | namespace=museum | operation.name=ping | at the server"}},
	{"do unacknowledged halls", "ok", []string{on("insert", "halls")}},
	{"do insert missing", "failed ...", []string{failed(on("insert", "missing"), "26")}},
	{"do one missing", "failed ...", []string{failed(on("find", "missing"), "26")}},
	{"do insert duplicate", "failed ...", []string{failed(on("insert", "duplicate"), "11000")}},
	{"do update concern", "failed ...", []string{failed(on("update", "concern"), "64")}},

	// A read is tried again, on a server without transactions a write is not.
	{"hangup 1", "ok", nil},
	{"do count halls", "ok", []string{on("aggregate", "halls")}},
	{"hangup 1", "ok", nil},
	{"do delete halls", "failed ...", []string{failedBy(on("delete", "halls"), "topology.ConnectionError")}},
	{"do insert halls", "ok", []string{on("insert", "halls")}},

	// Contexts that end, and a server that does not exist.
	{"timeout 0", "ok", nil},
	{"do delete halls", "failed ...", []string{failedBy(on("delete", "halls"), "*errors.errorString")}},
	{"timeout 50", "ok", nil},
	{"do delete slow", "failed ...", []string{on("delete", "slow") + " | error.type=... | failed"}},
	{"refused", "failed", []string{"find museum | namespace=museum | operation.name=find | error.type=topology.ServerSelectionError | failed"}},
}

// TestSpans compares the spans of operations with what the program did.
func TestSpans(t *testing.T) {
	each(t, specs(t), func(t *testing.T, c *curator) {
		var want []string
		for _, s := range steps {
			c.do(s.command, s.answer)
			want = append(want, s.want...)
		}
		var got []string
		for _, s := range c.end() {
			if s.Parent.IsValid() {
				t.Errorf("%+v has a parent", s)
			}
			got = append(got, c.text(s))
		}
		for i := range max(len(got), len(want)) {
			var g, w string
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if before, after, ok := strings.Cut(w, "..."); ok && strings.HasPrefix(g, before) && strings.HasSuffix(g, after) {
				continue
			}
			if g != w {
				t.Errorf("span %d:\n got %s\nwant %s", i, g, w)
			}
		}
	})
}

// TestLoad compares the operations of many requests of HTTP at once with what the server has received. Other goroutines do the work of half
// of the requests, which its contexts name.
func TestLoad(t *testing.T) {
	all := specs(t)
	if !testtarget.Requested() {
		all = all[len(all)-1:]
	}
	each(t, all, func(t *testing.T, c *curator) {
		const goroutines, rounds = 50, 4
		c.do(fmt.Sprintf("load %d %d", goroutines, rounds), "load")
		c.do(fmt.Sprintf("pooled %d %d", goroutines, rounds), "load")
		n := 2 * goroutines * rounds
		c.do("counts", fmt.Sprintf("delete=%d find=%d getMore=%d insert=%d", n, n, n, n))
		children, requests := map[trace.SpanID][]*spans.Span{}, map[trace.SpanID]*spans.Span{}
		for _, s := range c.end() {
			children[s.Parent.SpanID()] = append(children[s.Parent.SpanID()], s)
		}
		for _, s := range c.all {
			if s.Kind == trace.SpanKindServer {
				requests[s.Context.SpanID()] = s
			}
		}
		if len(requests) != n || len(children) != n {
			t.Errorf("%d requests, %d of them with operations, want %d", len(requests), len(children), n)
		}
		want := []string{on("insert", "loads"), on("find", "loads"), on("getMore", "loads"), on("delete", "loads")}
		for id, list := range children {
			request, rule := requests[id], spans.RuleGoroutine
			if request != nil && slices.Contains(request.Attributes, semconv.URLPath("/pooled")) {
				rule = spans.RuleContext
			}
			var got []string
			for _, s := range list {
				got = append(got, c.text(s))
				if request == nil || s.Context.TraceID() != request.Context.TraceID() || s.Rule != rule || s.Start < request.Start || s.End > request.End {
					t.Fatalf("%+v is not in %+v", s, request)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("a request has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}
