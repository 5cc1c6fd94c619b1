package otelsdk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// chain is three processes of program chain, which call each other: by HTTP, by gRPC, and by HTTP.
type chain struct {
	t         *testing.T
	processes []*testtarget.Process
	sessions  []*loupe.Session
	url       string                  // of the first one, to which the ID of an order is added
	received  *testcollector.Receiver // what the program exports

	server string // name of the program's spans of requests that it serves

	exact bool // constants of the program can be read in any case, and its exporter names itself

	mu    sync.Mutex
	spans []*spans.Span // of Loupe
}

// start starts the processes, with an argument, and observes them.
func start(t *testing.T, spec testtarget.Spec, argument string, opt loupe.Options) *chain {
	t.Helper()
	c := &chain{t: t, exact: opt.Engine == loupe.EngineInline && !strings.Contains(spec.Tags, "old"), received: testcollector.Receive(t, nil)}
	opt.Spans.Handle = func(s *spans.Span) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spans = append(c.spans, s)
	}
	path := testtarget.Build(t, spec)
	var addresses [][]string
	for range 3 {
		cmd := testcmd.Within(t, 0, path, argument)
		cmd.Env = append(cmd.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+c.received.HTTP, "OTEL_BSP_SCHEDULE_DELAY=600000")
		p := testtarget.StartCmd(t, cmd)
		c.processes = append(c.processes, p)
		addresses = append(addresses, strings.Fields(p.Command("address"))[1:])
	}
	c.processes[0].Command("next grpc " + addresses[1][1])
	c.processes[1].Command("next http http://" + addresses[2][0] + "/orders/")
	c.url = "http://" + addresses[0][0] + "/orders/"
	for _, p := range c.processes {
		c.observe(p, opt)
	}
	return c
}

func (c *chain) observe(p *testtarget.Process, opt loupe.Options) {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s, err := loupe.Attach(ctx, loupe.PID(p.PID()), opt)
	if err != nil {
		stop()
		c.t.Fatal(err)
	}
	for _, w := range s.Warnings() {
		c.t.Log(w)
	}
	c.sessions = append(c.sessions, s)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range s.Events() {
		}
	}()
	c.t.Cleanup(func() {
		stop()
		<-done
		if err := s.Close(); err != nil {
			c.t.Error(err)
		}
	})
}

// get requests an order, with a traceparent header if that is not empty.
func (c *chain) get(id, traceparent string) {
	req, err := http.NewRequest("GET", c.url+id, nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	if traceparent != "" {
		req.Header.Set("traceparent", traceparent)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(body) != "order "+id {
		c.t.Errorf("order %s: status %d, %q, %v", id, resp.StatusCode, body, err)
	}
}

// A span is one that a back end receives: from the program, or from Loupe.
type span struct {
	trace, id, parent, text string
	start                   time.Time
}

// take waits until Loupe has made n spans, and returns them and those that both have exported since the last call.
func (c *chain) take(n int) (made []*spans.Span, exported []span) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		made = slices.DeleteFunc(slices.Clone(c.spans), func(s *spans.Span) bool {
			if telemetry(s) && s.Context.IsSampled() && c.exact {
				c.t.Errorf("a request that exports spans is sampled: %s", describe([]*spans.Span{s}))
			}
			return telemetry(s)
		})
		if len(made) >= n || time.Now().After(deadline) {
			c.spans = nil
			c.mu.Unlock()
			break
		}
		c.mu.Unlock()
	}
	if len(made) != n {
		c.t.Errorf("%d spans, want %d: %s", len(made), n, describe(made))
	}
	for _, s := range made {
		if s.Context.IsSampled() && !s.Exported {
			e := span{trace: s.Context.TraceID().String(), id: s.Context.SpanID().String(), text: "loupe " + s.Kind.String() + " " + s.Name, start: time.Unix(0, s.Start)}
			if s.Parent.IsValid() {
				e.parent = s.Parent.SpanID().String()
			}
			exported = append(exported, e)
		}
	}
	before := len(c.received.Spans())
	for _, p := range c.processes {
		p.Command("flush")
	}
	for _, s := range c.received.Spans()[before:] {
		exported = append(exported, span{trace: s.TraceID, id: s.ID, parent: s.ParentID, text: "own " + strings.ToLower(s.Kind) + " " + s.Name, start: s.Start})
	}
	return made, exported
}

// telemetry reports whether a span is a request by which the program exports its spans.
func telemetry(s *spans.Span) bool {
	return slices.ContainsFunc(s.Attributes, func(kv attribute.KeyValue) bool { return strings.HasSuffix(kv.Value.String(), "/v1/traces") })
}

// describe lists spans.
func describe(list []*spans.Span) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "\n%s %s %s own=%v exported=%v sampled=%v %s in %s by %q", s.Library, s.Kind, s.Name, s.Own, s.Exported, s.Context.IsSampled(), s.Context.SpanID(), s.Parent.SpanID(), s.Rule)
	}
	return b.String()
}

// tree returns the spans of each trace as a tree, whose root has a parent.
func tree(list []span, parent string) string {
	slices.SortFunc(list, func(a, b span) int { return a.start.Compare(b.start) })
	var b strings.Builder
	seen := 0
	var visit func(trace, parent string, depth int)
	visit = func(trace, parent string, depth int) {
		for _, s := range list {
			if s.parent == parent && (trace == "" || s.trace == trace) {
				fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), s.text)
				seen++
				visit(s.trace, s.id, depth+1)
			}
		}
	}
	visit("", parent, 0)
	if seen != len(list) {
		fmt.Fprintf(&b, "%d of %d spans in a tree: %v", seen, len(list), list)
	}
	return b.String()
}

func (c *chain) expect(got, want string) {
	c.t.Helper()
	want = strings.ReplaceAll(want, "own server GET /orders/{id}", "own server "+c.server)
	if got != want {
		c.t.Errorf("exported\n%s\nwant\n%s", got, want)
	}
}

// complete checks that nothing was lost or misunderstood, and that no request had two headers.
func (c *chain) complete() {
	c.t.Helper()
	for i, s := range c.sessions {
		var n loupe.SpanCounts
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			var err error
			if n, err = s.SpanCounts(); err != nil {
				c.t.Fatal(err)
			}
			if n.Open == 0 || time.Now().After(deadline) { // the spans were exported after the last request
				break
			}
		}
		if n.Open != 0 || n.Strays != 0 || n.Mismatched != 0 || n.Unobserved != 0 || n.Notes.Lost+n.Notes.NotRead+n.Notes.Impossible+n.Notes.Garbled != 0 {
			c.t.Errorf("counts: %+v", n)
		}
		if got := c.processes[i].Command("headers"); got != "headers 1" && got != "headers 0" {
			c.t.Errorf("process %d has received several traceparent headers in one request: %s", i, got)
		}
	}
}

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A version is one of the SDK, and how the program is built with it.
type version struct {
	modfile, tags string
	server        string // name of the program's spans of requests that it serves
	release       string // a Go release that builds it; the newest one builds those that are stripped
}

var versions = []version{
	{"sdk-1.0.mod", "sdk,old", "server", "1.22.12"},
	{"sdk-1.21.mod", "sdk", "server", "1.24.13"},
	{"sdk.mod", "sdk", "GET /orders/{id}", "1.26.11"},
}

// each runs a test with each engine, version and build, or if LOUPE_RELEASES does not choose all releases with the newest ones.
func each(t *testing.T, test func(t *testing.T, v version, spec testtarget.Spec, opt loupe.Options)) {
	list, builds := versions, []bool{false, true}
	if !testtarget.Requested() {
		list, builds = list[len(list)-1:], builds[1:]
		t.Log(testtarget.LeftOut + "versions of the SDK other than the newest")
	}
	for _, v := range list {
		for _, stripped := range builds {
			release := v.release
			if stripped {
				release = testtarget.Latest()
			}
			for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
				spec := testtarget.Spec{Program: "chain", Go: release, Stripped: stripped, Tags: v.tags, Flags: "-modfile=" + v.modfile}
				t.Run(fmt.Sprintf("%s/%s", engine, spec), func(t *testing.T) {
					if engine == loupe.EngineUprobe && os.Getuid() != 0 {
						t.Skip("eBPF requires root")
					}
					opt := loupe.Options{Engine: engine}
					if engine == loupe.EngineInline {
						opt.Spans.Propagation = &loupe.Propagation{}
					}
					test(t, v, spec, opt)
				})
			}
		}
	}
}

// TestChain has requests pass three services that are instrumented with the SDK. Loupe adds what the program does not know.
func TestChain(t *testing.T) {
	each(t, func(t *testing.T, v version, spec testtarget.Spec, opt loupe.Options) {
		c := start(t, spec, "", opt)
		c.server = v.server
		c.stored()
		c.spread()
		c.job(opt.Spans.Propagation != nil)
		c.bare(opt.Spans.Propagation != nil, strings.Contains(v.tags, "old"))
		c.complete()
	})
}

// all are the spans of an order that each service stores.
const all = `own server GET /orders/{id}
  own internal store
    loupe client INSERT orders
  own client loupe.test.Stock/Reserve
    own server loupe.test.Stock/Reserve
      own internal store
        loupe client INSERT orders
      own client HTTP GET
        own server GET /orders/{id}
          own internal store
            loupe client INSERT orders
`

// mode runs a part of TestModes, always with one of the engines.
func mode(t *testing.T, name string, engine, always loupe.Engine, test func(t *testing.T)) {
	if engine == always || testtarget.Requested() {
		t.Run(name, test)
	}
}

// stored requests orders that each service stores.
func (c *chain) stored() {
	c.t.Helper()
	c.get("stored-1", "")
	made, exported := c.take(11)
	c.expect(tree(exported, ""), all)
	for _, s := range made {
		if s.Kind == trace.SpanKindServer && s.Work == nil {
			c.t.Errorf("no breakdown of %s", s.Name)
		}
	}
	c.get("stored-2", incoming)
	_, exported = c.take(11)
	c.expect(tree(exported, "b7ad6b7169203331"), all)
}

// spread has the services send requests on other goroutines, many at once.
func (c *chain) spread() {
	c.t.Helper()
	const clients, requests = 20, 5
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for j := range requests {
				c.get(fmt.Sprintf("spread-%d-%d", i, j), "")
			}
		})
	}
	all.Wait()
	_, exported := c.take(5 * clients * requests)
	byTrace := map[string][]span{}
	for _, s := range exported {
		byTrace[s.trace] = append(byTrace[s.trace], s)
	}
	if len(byTrace) != clients*requests {
		c.t.Errorf("%d traces", len(byTrace))
	}
	for _, list := range byTrace {
		c.expect(tree(list, ""), `own server GET /orders/{id}
  own client loupe.test.Stock/Reserve
    own server loupe.test.Stock/Reserve
      own client HTTP GET
        own server GET /orders/{id}
`)
		if c.t.Failed() {
			return
		}
	}
}

// job has the program send a request without instrumentation, in a span of its own that no request has caused.
func (c *chain) job(propagates bool) {
	c.t.Helper()
	c.processes[1].Command("job")
	_, exported := c.take(5)
	want := `own internal job
  own internal store
    loupe client INSERT orders
  loupe client GET
`
	if propagates {
		want += "    own server GET /orders/{id}\n"
	} else {
		want += "own server GET /orders/{id}\n"
	}
	c.expect(tree(exported, ""), want)
}

// bare has the program send requests in client spans of its own that have no attributes at first. The spans of Loupe are in these, unless
// attributes that are set later say that both describe the same: SDKs before v1.4.0 do not show these. A request that has got a header
// with the span of Loupe keeps that.
func (c *chain) bare(propagates, old bool) {
	c.t.Helper()
	c.processes[1].Command("bare")
	const served = "own server GET /orders/{id}\n"
	nested := "  loupe client GET\n" + served
	if propagates {
		nested = "  loupe client GET\n    " + served
	}
	described := served
	if propagates || old {
		described = nested
	}
	twice := strings.Repeat(nested, 2)
	statement := ""
	if old {
		statement = "  loupe client INSERT orders\n"
	}
	n := 19 // 6 spans of the program and 7 operations in them, and 6 requests that the next service serves
	if described == served {
		n -= 2
	}
	if statement == "" {
		n--
	}
	_, exported := c.take(n)
	if !propagates { // the two requests that are served are no children of what is sent
		twice = "  loupe client GET\n  loupe client GET\n" + served + served
	}
	c.expect(tree(exported, ""), "own client bare\n"+nested+"own client early\n"+described+"own client late\n"+described+
		"own client two\n"+twice+"own client statement\n"+statement+"own client other\n"+nested)
}

// TestDatabase has the program make spans of its statements, too, by otelsql. Its driver makes them within the operations of database/sql.
func TestDatabase(t *testing.T) {
	testtarget.Whole(t, "a database with spans")
	want := strings.ReplaceAll(all, "loupe client INSERT orders", "own client sql.conn.exec")
	for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
		t.Run(string(engine), func(t *testing.T) {
			if engine == loupe.EngineUprobe && os.Getuid() != 0 {
				t.Skip("eBPF requires root")
			}
			c := start(t, testtarget.Spec{Program: "chain", Stripped: true, Tags: "sdk,sql", Flags: "-modfile=sdk-sql.mod"}, "", loupe.Options{Engine: engine})
			c.server = "GET /orders/{id}"
			c.get("stored-1", "")
			_, exported := c.take(14) // the driver connects first: of its two spans, the first one is that of the operation
			connected := strings.ReplaceAll(tree(exported, ""), "own client sql.connector.connect", "")
			c.expect(strings.Join(strings.Fields(connected), " "), strings.Join(strings.Fields(want), " "))
			c.get("stored-2", "")
			_, exported = c.take(11)
			c.expect(tree(exported, ""), want)
			c.complete()
		})
	}
}

// TestModes has the program sample no spans, export none, send no contexts, and have no SDK at all. Unless LOUPE_RELEASES chooses all
// releases, each engine has some of these.
func TestModes(t *testing.T) {
	each(t, func(t *testing.T, v version, spec testtarget.Spec, opt loupe.Options) {
		mode(t, "unsampled", opt.Engine, loupe.EngineInline, func(t *testing.T) {
			c := start(t, spec, "unsampled", opt)
			for _, parent := range []string{"", incoming, incoming[:53] + "00"} {
				c.get("stored-1", parent)
				made, exported := c.take(8)
				c.expect(tree(exported, ""), "")
				traces := map[trace.TraceID]bool{}
				for _, s := range made {
					traces[s.Context.TraceID()] = true
				}
				if len(traces) != 1 {
					t.Errorf("%d traces: %s", len(traces), describe(made))
				}
			}
			c.complete()
		})
		if !strings.Contains(v.tags, "old") { // that SDK fails without a processor
			mode(t, "unexported", opt.Engine, loupe.EngineInline, func(t *testing.T) {
				c := start(t, spec, "unexported", opt)
				c.get("stored-1", "")
				_, exported := c.take(11)
				c.expect(tree(exported, ""), `loupe server GET /orders/{id}
  loupe internal store
    loupe client INSERT orders
  loupe client loupe.test.Stock/Reserve
    loupe server loupe.test.Stock/Reserve
      loupe internal store
        loupe client INSERT orders
      loupe client GET
        loupe server GET /orders/{id}
          loupe internal store
            loupe client INSERT orders
`)
				c.complete()
			})
		}
		mode(t, "apart", opt.Engine, "", func(t *testing.T) {
			c := start(t, spec, "apart", opt)
			c.server = v.server
			c.get("stored-1", "")
			_, exported := c.take(11)
			// Each service begins a trace, even if Loupe adds contexts to the requests.
			c.expect(strings.ReplaceAll(tree(exported, ""), "  ", ""), strings.ReplaceAll(all, "  ", ""))
			c.complete()
		})
		mode(t, "idle", opt.Engine, loupe.EngineUprobe, func(t *testing.T) {
			c := start(t, spec, "idle", opt)
			c.get("stored-1", "")
			if opt.Engine == loupe.EngineInline && runtime.GOARCH == testtarget.AMD64 { // which does not report spans of the API
				_, exported := c.take(8)
				c.expect(tree(exported, ""), `loupe server GET /orders/{id}
  loupe client INSERT orders
  loupe client loupe.test.Stock/Reserve
    loupe server loupe.test.Stock/Reserve
      loupe client INSERT orders
      loupe client GET
        loupe server GET /orders/{id}
          loupe client INSERT orders
`)
			} else {
				_, exported := c.take(11)
				c.expect(tree(exported, ""), `loupe server GET /orders/{id}
  loupe internal store
    loupe client INSERT orders
  loupe client loupe.test.Stock/Reserve
loupe server loupe.test.Stock/Reserve
  loupe internal store
    loupe client INSERT orders
  loupe client GET
loupe server GET /orders/{id}
  loupe internal store
    loupe client INSERT orders
`)
			}
			c.complete()
		})
	})
}
