package grpc_test

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// eachPropagating runs a test with each version and each build whose RPCs carry contexts.
func eachPropagating(t *testing.T, test func(t *testing.T, o *observed)) {
	list := versions
	if !testtarget.Requested() {
		list = list[len(list)-1:]
		t.Log(testtarget.LeftOut + "versions of gRPC other than the newest")
	}
	for _, v := range list {
		for _, b := range testtarget.Variants(t, v.release) {
			spec := v.spec(b.Go, b.Stripped)
			t.Run(spec.String(), func(t *testing.T) {
				cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
				cmd.Env = append(cmd.Environ(), "GODEBUG=clobberfree=1")
				target := testtarget.StartCmd(t, cmd)
				test(t, observeWith(t, target, loupe.EngineInline, v.name == versions[len(versions)-1].name, loupe.SpanOptions{Propagation: &loupe.Propagation{Baggage: true}}))
			})
		}
	}
}

// linked executes a command that makes n RPCs, and checks that each one that the program sent is the parent of the one that was served.
// RPCs of method Echo are compared with the headers that their handlers have received.
func (o *observed) linked(command string, n int) {
	o.t.Helper()
	o.target.Command("received")
	o.target.Command(command)
	servers, clients := map[trace.SpanID]*spans.Span{}, map[trace.SpanID]*spans.Span{}
	for _, s := range o.take(2 * n) {
		if s.Kind == trace.SpanKindServer {
			servers[s.Parent.SpanID()] = s
		} else {
			clients[s.Context.SpanID()] = s
		}
	}
	if len(servers) != n || len(clients) != n {
		o.t.Fatalf("%s: %d RPCs were served and %d sent, want %d", command, len(servers), len(clients), n)
	}
	echoes := 0
	for id, s := range clients {
		if server := servers[id]; server == nil || server.Rule != spans.RuleHeader || server.Context.TraceID() != s.Context.TraceID() || server.Name != s.Name {
			o.t.Errorf("%s: the RPC with context %v was served as %+v", command, s.Context, server)
		}
		if strings.HasSuffix(s.Name, "/Echo") {
			echoes++
		}
	}
	headers := strings.Fields(o.target.Command("received"))[1:]
	if len(headers) != echoes {
		o.t.Errorf("%s: %d RPCs of method Echo, want %d", command, len(headers), echoes)
	}
	for _, header := range headers {
		var id trace.SpanID
		parts := strings.Split(header, "-")
		if len(parts) == 4 {
			id, _ = trace.SpanIDFromHex(parts[2])
		}
		s := clients[id]
		if s == nil || header != fmt.Sprintf("1:00-%s-%s-01", s.Context.TraceID(), id) {
			o.t.Errorf("%s: a handler has received %s", command, header)
		}
	}
}

// TestPropagation makes RPCs that carry contexts, while garbage is collected.
func TestPropagation(t *testing.T) {
	const own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	eachPropagating(t, func(t *testing.T, o *observed) {
		o.target.Command("garbage")
		o.linked("unary ok", 1)
		o.linked("unary relay", 2)
		o.linked("unary spawn", 2)
		o.linked("feed 3", 1)
		o.linked("collect 3", 1)
		o.linked("talk 3", 1)
		o.linked("overlap", 2)
		o.linked("parallel 16 20", 16*20*2)
		if c, err := o.SpanCounts(); err != nil || c.NoHeader != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		for n := range 45 { // the map of more headers can have more buckets than are searched, before Go 1.24
			if o.labeled(n) != 0 {
				t.Errorf("an RPC with %d headers had no room for another one", n)
			}
		}
		if o.labeled(100) == 0 {
			t.Error("an RPC with 100 headers has another one")
		}
		for _, n := range []string{"0", "1", "7", "30"} { // as if propagated by the program
			o.expect("tagged "+n+" "+own, "OK", "client Echo OK", "server Echo OK of b7ad6b7169203331")
		}
		if got := o.target.Command("received"); strings.Count(got, "1:"+own) != 4 {
			t.Errorf("handlers have received %s", got)
		}
		o.complete()
	})
}

// TestCarried makes RPCs with a tracestate and a baggage, whose handlers make others.
func TestCarried(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	eachPropagating(t, func(t *testing.T, o *observed) {
		o.target.Command("garbage")
		long := "a=" + strings.Repeat("x", 254)
		for _, c := range []struct{ state, baggage, wantState, wantBaggage string }{
			{"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "user=42", "1:rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "1:user=42"},
			{long, strings.Repeat("b", 496), "1:" + long, "1:" + strings.Repeat("b", 496)},
			{long + "xx", "user=42", "0:", "1:user=42"},
			{"novalue", strings.Repeat("b", 497), "0:", "0:"},
		} {
			for range 20 {
				o.target.Command("carried")
				o.target.Command("carry " + c.state + " " + c.baggage + " " + parent)
				all := o.take(4)
				want := fmt.Sprintf("carried 1:%s|1:%s %s|%s", c.state, c.baggage, c.wantState, c.wantBaggage)
				if got := o.target.Command("carried"); got != want {
					t.Fatalf("handlers have received %q, want %q", got, want)
				}
				if len(all) != 4 {
					t.Fatalf("spans: %d, want 4", len(all))
				}
			}
		}
		o.complete()
	})
}

// labeled makes an RPC with a number of headers. It carries its context, or is counted, and labeled returns 1.
func (o *observed) labeled(headers int) int {
	o.t.Helper()
	before, _ := o.SpanCounts()
	o.target.Command("received")
	o.target.Command(fmt.Sprintf("labeled %d", headers))
	list := o.take(2)
	after, _ := o.SpanCounts()
	if after.NoHeader > before.NoHeader {
		o.t.Logf("no room for another header beside %d", headers)
		if got := o.target.Command("received"); headers == 0 || got != "received 0:" {
			o.t.Errorf("with %d headers the handler has received %s", headers, got)
		}
		return 1
	}
	if len(list) != 2 || list[0].Context.TraceID() != list[1].Context.TraceID() {
		o.t.Errorf("with %d headers: %+v", headers, list)
	}
	return 0
}
