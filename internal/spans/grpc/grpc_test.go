package grpc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/grpc"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of the module's, with the oldest Go release that builds it.
type version struct {
	name, release string

	// early reports that RPCs which fail before the name of the server is resolved are observed.
	early bool
	// Codes of the server if the client cancels: the handler returns the error of its context, or no error.
	cancelled, late string
	// The code of a client that closes the connection.
	closed string
}

var versions = []version{
	{name: "1.14", release: "1.19.13", cancelled: "UNKNOWN error", late: "INTERNAL error", closed: "UNAVAILABLE"},
	{name: "1.36", release: "1.19.13", early: true, cancelled: "UNKNOWN error", late: "INTERNAL error", closed: "UNAVAILABLE"},
	{name: "1.57", release: "1.19.13", cancelled: "CANCELLED", late: "CANCELLED", closed: "UNAVAILABLE"},
	{name: "1.72", release: "1.23.12", cancelled: "CANCELLED", late: "CANCELLED", closed: "CANCELLED"},
	{name: "1.85", release: "1.26.11", early: true, cancelled: "CANCELLED", late: "CANCELLED", closed: "CANCELLED"},
}

// spec returns how the target is built with a version.
func (v version) spec(release string, stripped bool) testtarget.Spec {
	s := testtarget.Spec{Program: "exchange", Go: release, Stripped: stripped, Flags: "-modfile=grpc-" + v.name + ".mod"}
	if v.name == "1.14" {
		s.Tags = "grpc1.14"
	}
	return s
}

// each runs a test with each engine, each version and each build.
func each(t *testing.T, test func(t *testing.T, v version, o *observed)) {
	list := versions
	if !testtarget.Requested() {
		list = list[len(list)-1:]
		t.Log(testtarget.LeftOut + "versions of gRPC other than the newest")
	}
	for _, v := range list {
		for _, b := range testtarget.Variants(t, v.release) {
			spec := v.spec(b.Go, b.Stripped)
			spanstest.Run(t, spec, spanstest.Engines(), func(t *testing.T, engine loupe.Engine) {
				target := testtarget.Start(t, testtarget.Build(t, spec))
				test(t, v, observe(t, target, engine, v.name == versions[len(versions)-1].name))
			})
		}
	}
}

// observed is a session with a target.
type observed struct {
	*loupe.Session
	t      *testing.T
	target *testtarget.Process
	done   sync.WaitGroup

	mu    sync.Mutex
	spans []*spans.Span
}

// observe begins to observe a target. strict means that warnings about probes are errors.
func observe(t *testing.T, target *testtarget.Process, engine loupe.Engine, strict bool) *observed {
	t.Helper()
	return observeWith(t, target, engine, strict, loupe.SpanOptions{})
}

// observeWith is observe with options.
func observeWith(t *testing.T, target *testtarget.Process, engine loupe.Engine, strict bool, opt loupe.SpanOptions) *observed {
	t.Helper()
	o := &observed{t: t, target: target}
	opt.Handle = o.add
	ctx, stop := context.WithCancel(context.Background())
	s, err := loupe.Attach(ctx, loupe.PID(target.PID()), loupe.Options{Engine: engine, Spans: opt})
	if err != nil {
		stop()
		t.Fatal(err)
	}
	o.Session = s
	for _, w := range s.Warnings() {
		switch {
		case w.Kind == event.WarnTimes || w.Kind == event.WarnState: // not every machine has a reliable counter, or is idle
		case strict:
			t.Errorf("warning: %s", w)
		default:
			t.Logf("warning: %s", w)
		}
	}
	o.done.Go(func() {
		for range s.Events() {
		}
	})
	t.Cleanup(func() {
		stop()
		o.done.Wait()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *observed) add(s *spans.Span) {
	if s.Library != grpc.Library {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans = append(o.spans, s)
}

// take waits for n spans and returns all that have ended since the last call.
func (o *observed) take(n int) []*spans.Span {
	o.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		o.mu.Lock()
		if len(o.spans) >= n || time.Now().After(end) {
			list := o.spans
			o.spans = nil
			o.mu.Unlock()
			return list
		}
		o.mu.Unlock()
	}
}

// describe returns what a span says, and its parent among others.
func describe(s *spans.Span, among []*spans.Span) string {
	text := fmt.Sprintf("%s %s", s.Kind, strings.TrimPrefix(s.Name, "loupe.test.Exchange/"))
	if code, ok := attributeOf(s, "rpc.response.status_code"); ok {
		text += " " + code
	}
	if s.Status == codes.Error {
		text += " error"
	}
	switch s.Ending {
	case spans.Panicked:
		text += " panicked"
	case spans.Unobserved:
		text += " unobserved"
	}
	switch s.Rule {
	case spans.RuleRoot:
	case spans.RuleHeader:
		text += " of " + s.Parent.SpanID().String()
	default:
		i := slices.IndexFunc(among, func(p *spans.Span) bool { return p.Context.SpanID() == s.Parent.SpanID() })
		if i < 0 || among[i].Context.TraceID() != s.Context.TraceID() {
			return text + " of an unknown parent"
		}
		text += fmt.Sprintf(" in %s by %s", among[i].Kind, s.Rule)
	}
	return text
}

func attributeOf(s *spans.Span, key string) (string, bool) {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value.String(), true
		}
	}
	return "", false
}

// expect executes a command and compares its spans. An empty answer is not compared. Spans may be in any order.
func (o *observed) expect(command, answer string, want ...string) []*spans.Span {
	o.t.Helper()
	if got := o.target.Command(command); answer != "" && got != answer {
		o.t.Errorf("%s: answer %q, want %q", command, got, answer)
	}
	list := o.take(len(want))
	var got []string
	for _, s := range list {
		got = append(got, describe(s, list))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		o.t.Errorf("%s:\n%s\nwant\n%s", command, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return list
}

// complete checks that nothing was lost or misunderstood.
func (o *observed) complete() {
	o.t.Helper()
	c, err := o.SpanCounts()
	if err != nil {
		o.t.Fatal(err)
	}
	if c.Begun != c.Ended || c.Strays != 0 || c.Mismatched != 0 || c.Unobserved != 0 || c.Notes.Lost != 0 || c.Notes.NotRead != 0 ||
		c.Notes.Impossible != 0 || c.Notes.Full != 0 || c.Notes.Garbled != 0 {
		o.t.Errorf("counts: %+v", c)
	}
}

// statusCodes are the names of the codes from 1 on, and whether they are errors of a server.
var statusCodes = []struct {
	name string
	fail bool
}{
	{"CANCELLED", false}, {"UNKNOWN", true}, {"INVALID_ARGUMENT", false}, {"DEADLINE_EXCEEDED", true}, {"NOT_FOUND", false},
	{"ALREADY_EXISTS", false}, {"PERMISSION_DENIED", false}, {"RESOURCE_EXHAUSTED", false}, {"FAILED_PRECONDITION", false},
	{"ABORTED", false}, {"OUT_OF_RANGE", false}, {"UNIMPLEMENTED", true}, {"INTERNAL", true}, {"UNAVAILABLE", true}, {"DATA_LOSS", true},
	{"UNAUTHENTICATED", false},
}

// ok are the spans of an RPC without errors.
func ok(method string) []string {
	return []string{"client " + method + " OK", "server " + method + " OK"}
}

// TestUnary makes unary RPCs that end in each way.
func TestUnary(t *testing.T) {
	each(t, func(t *testing.T, v version, o *observed) {
		for _, s := range o.expect("unary ok", "OK", ok("Echo")...) {
			checkAttributes(t, s, o.target.Command("address"))
		}
		for i, c := range statusCodes {
			server := "server Echo " + c.name
			if c.fail {
				server += " error"
			}
			for _, s := range o.expect(fmt.Sprintf("unary code %d", i+1), "", server, "client Echo "+c.name+" error") {
				if want := fmt.Sprintf("message %d", i+1); s.Status == codes.Error && s.Message != want {
					t.Errorf("message %q, want %q", s.Message, want)
				}
			}
		}
		o.expect("unary plain", "Unknown", "client Echo UNKNOWN error", "server Echo UNKNOWN error")
		o.expect("unary panic", "Internal", "client Echo INTERNAL error", "server Echo INTERNAL error")
		o.expect("deadline exit", "DeadlineExceeded", "client Echo DEADLINE_EXCEEDED error", "server Echo error panicked")
		o.expect("cancel wait", "Canceled", "client Echo CANCELLED error", "server Echo "+v.cancelled)
		o.expect("cancel late", "Canceled", "client Echo CANCELLED error", "server Echo "+v.late)
		o.expect("abandon wait", "", "client Echo "+v.closed+" error", "server Echo "+v.cancelled)
		for _, s := range o.expect("missing Nothing", "Unimplemented", "client Nothing UNIMPLEMENTED error", "server grpc UNIMPLEMENTED error") {
			if original, _ := attributeOf(s, "rpc.method_original"); s.Kind == trace.SpanKindServer && original != "loupe.test.Exchange/Nothing" {
				t.Errorf("the original method is %q", original)
			}
		}
		o.expect("refused", "Unavailable", "client Echo UNAVAILABLE error")
		if v.early {
			o.expect("unresolved", "DeadlineExceeded", "client Echo DEADLINE_EXCEEDED error")
		}
		o.complete()
	})
}

// checkAttributes checks the attributes of an RPC to a server.
func checkAttributes(t *testing.T, s *spans.Span, address string) {
	t.Helper()
	port := address[strings.LastIndex(address, ":")+1:]
	want := map[string]string{"rpc.system.name": "grpc", "rpc.method": "loupe.test.Exchange/Echo", "rpc.response.status_code": "OK",
		"network.transport": "tcp", "network.peer.address": "127.0.0.1", "server.address": "127.0.0.1", "server.port": port}
	if s.Kind == trace.SpanKindClient {
		want["network.peer.port"] = port
	} else if agent, _ := attributeOf(s, "user_agent.original"); !strings.HasPrefix(agent, "grpc-go/") {
		t.Errorf("the user agent is %q", agent)
	}
	for key, value := range want {
		if got, _ := attributeOf(s, key); got != value {
			t.Errorf("%s: %s=%q, want %q", s.Kind, key, got, value)
		}
	}
}

// TestStreams makes streaming RPCs.
func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, _ version, o *observed) {
		o.expect("feed 3", "3 OK", ok("Feed")...)
		o.expect("collect 3", "1 OK", ok("Collect")...)
		o.expect("talk 3", "0 OK", ok("Talk")...)
		o.expect("fail 5", "0 NotFound", "client Talk NOT_FOUND error", "server Talk NOT_FOUND")
		o.expect("leave", "", "client Talk CANCELLED error", "server Talk CANCELLED")
		o.expect("overlap", "0 OK", slices.Concat(ok("Talk"), ok("Echo"))...)
		o.complete()
	})
}

// TestParents makes RPCs with metadata, and RPCs in handlers.
func TestParents(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	each(t, func(t *testing.T, _ version, o *observed) {
		traced := []string{"client Echo OK", "server Echo OK of b7ad6b7169203331"}
		inner := func(rule string) []string {
			return append([]string{"client Echo OK in server by " + rule, "server Echo OK"}, traced...)
		}
		for _, s := range o.expect("traced "+parent+" ok", "OK", traced...) {
			if got := s.Context.TraceID().String() == "0af7651916cd43dd8448eb211c80319c"; got != (s.Kind == trace.SpanKindServer) {
				t.Errorf("%s: the trace is %s", s.Kind, s.Context.TraceID())
			}
		}
		o.expect("traced "+parent+" relay", "OK", inner("goroutine")...)
		o.expect("traced "+parent+" spawn", "OK", inner("creator")...)
		o.expect("traced "+parent+" pooled", "OK", inner("context")...)
		o.expect("traced invalid ok", "OK", ok("Echo")...)
		for _, n := range []string{"0", "7", "30", "40"} { // before Go 1.24, maps of 53 keys have 16 buckets, and the search ends there
			o.expect("tagged "+n+" "+parent, "OK", traced...)
		}
		o.complete()
		o.target.Command("tagged 500 " + parent) // only a part of these keys is searched, and the parent may be in it
		found := slices.ContainsFunc(o.take(2), func(s *spans.Span) bool { return s.Kind == trace.SpanKindServer && s.Parent.IsValid() })
		var want uint64
		if !found {
			want = 1
		}
		if c, err := o.SpanCounts(); err != nil || c.Unsearched != want {
			t.Errorf("a parent that is found: %t, spans whose parent may not have been: %d (%v)", found, c.Unsearched, err)
		}
	})
}

// TestParallel makes RPCs on several goroutines.
func TestParallel(t *testing.T) {
	const clients, calls = 8, 25
	each(t, func(t *testing.T, _ version, o *observed) {
		var want []string
		for range clients * calls {
			want = append(want, "client Echo OK", "server Echo OK", "client Echo OK in server by goroutine", "server Echo OK")
		}
		parents := map[trace.SpanID]bool{}
		for _, s := range o.expect(fmt.Sprintf("parallel %d %d", clients, calls), "", want...) {
			if s.Parent.IsValid() {
				if parents[s.Parent.SpanID()] {
					t.Errorf("two RPCs in the handler of one")
				}
				parents[s.Parent.SpanID()] = true
			}
		}
		o.complete()
	})
}

// TestTransports makes RPCs to a server with workers, and to a server in package http2.
func TestTransports(t *testing.T) {
	each(t, func(t *testing.T, v version, o *observed) {
		use := func(command string) {
			o.expect(command, command, ok("Echo")...)
			for range 5 {
				o.expect("unary ok", "OK", ok("Echo")...)
				o.expect("talk 3", "0 OK", ok("Talk")...)
				o.expect("traced 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 relay", "OK", "client Echo OK", "server Echo OK of b7ad6b7169203331",
					"client Echo OK in server by goroutine", "server Echo OK")
			}
			o.expect("unary code 5", "NotFound", "client Echo NOT_FOUND error", "server Echo NOT_FOUND")
		}
		if v.name != "1.14" {
			use("workers")
		}
		o.complete()
		use("http") // the set of net/http may count strays: it observes only the end of the requests
	})
}
