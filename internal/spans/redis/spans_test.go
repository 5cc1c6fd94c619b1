package redis_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/redis"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of the module's, with the Go releases that build it.
type version struct {
	name     string
	major    int
	releases []string // the newest one is added
	unwatch  []string // the commands that follow a transaction with WATCH
}

var versions = []version{
	{"8.0", 8, []string{"1.19.13", "1.23.12"}, one("unwatch")},
	{"8.11", 8, []string{"1.19.13", "1.22.12"}, one("unwatch")},
	{"9.0", 9, []string{"1.19.13", "1.21.13"}, one("unwatch")},
	{"9.14", 9, []string{"1.19.13", "1.23.12"}, one("unwatch")},
	{"9.18", 9, []string{"1.21.13", "1.24.13"}, one("unwatch")},
	{"9.22", 9, []string{"1.24.13"}, nil},
	{"9.23", 9, []string{"1.26.11"}, nil},
}

// fewVersions are those that are tested unless all releases are, with the newest Go release, and the engines.
var fewVersions = map[string][]loupe.Engine{"8.11": {loupe.EngineInline}, "9.23": spanstest.Engines()}

// library returns the module.
func (v version) library() string {
	if v.major == 8 {
		return redis.V8
	}
	return redis.V9
}

// spec returns how the target is built with a version.
func (v version) spec(release string, stripped bool) testtarget.Spec {
	s := testtarget.Spec{Program: "pantry", Go: release, Stripped: stripped, Flags: "-modfile=redis-" + v.name + ".mod"}
	if v.major == 8 {
		s.Tags = "redis8"
	}
	return s
}

// A target is a program with connected clients, which is observed.
type target struct {
	*testtarget.Process
	*spanstest.Session
	t       *testing.T
	version version
	release string
	servers *servers
	all     []*spans.Span
}

// each runs a test with each version, Go release, build and engine. several is that of startServers.
func each(t *testing.T, opt loupe.SpanOptions, several bool, test func(o *target)) {
	all := testtarget.Requested()
	if !all {
		t.Log(testtarget.LeftOut + "other versions of the Redis client")
	}
	s := startServers(t, several)
	for _, v := range versions {
		engines := fewVersions[v.name]
		if all {
			engines = spanstest.Engines()
		}
		for _, b := range testtarget.Variants(t, v.releases...) {
			spec := v.spec(b.Go, b.Stripped)
			spanstest.Run(t, spec, engines, func(t *testing.T, engine loupe.Engine) {
				test(observe(t, &target{t: t, version: v, release: b.Go, servers: s}, spec, engine, opt))
			})
		}
	}
}

func observe(t *testing.T, o *target, spec testtarget.Spec, engine loupe.Engine, opt loupe.SpanOptions) *target {
	t.Helper()
	o.servers.clear(t)
	o.Process = testtarget.Start(t, testtarget.Build(t, spec))
	o.Command(strings.Join([]string{"connect", o.servers.main, o.servers.socket, o.servers.cluster, o.servers.other, o.servers.sentinel}, " "))
	o.Session = spanstest.Attach(t, o.Process.PID(), loupe.Options{Engine: engine, Spans: opt, BufferBytes: 16 << 20})
	o.NoWarnings()
	return o
}

// end ends the observation and returns the spans of the client in the order of their starts.
func (o *target) end() []*spans.Span {
	o.t.Helper()
	o.all = o.End()
	c, err := o.SpanCounts()
	open := c.Open > 0 && o.servers.cluster == "" // clients with several servers send commands at any time
	if err != nil || open || c.Mismatched > 0 || c.Strays > 0 || c.Notes.Lost > 0 || c.Notes.Garbled > 0 || c.Notes.Full > 0 ||
		c.Notes.Unreadable > 0 || c.Notes.Impossible > 0 || c.Notes.Cut > 0 {
		o.t.Errorf("%+v, %v", c, err)
	}
	list := slices.DeleteFunc(slices.Clone(o.all), func(s *spans.Span) bool { return s.Library == nethttp.Library })
	slices.SortStableFunc(list, func(a, b *spans.Span) int { return int(a.Start - b.Start) })
	return list
}

// text returns what a test expects of a span.
func text(s *spans.Span) string {
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
	return b.String()
}

// A server is the attributes of operations: of a server with a database, and of a connection.
type server struct{ attributes, peer string }

// at returns the attributes of operations that were sent to a server.
func at(addr string, db int) server {
	s := server{attributes: fmt.Sprintf(" | system.name=redis | namespace=%d", db)}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		s.attributes += " | server.address=" + addr
		s.peer = " | network.peer.address=" + addr
		return s
	}
	s.attributes += " | server.address=" + host + " | server.port=" + port
	s.peer = " | network.peer.address=" + host + " | network.peer.port=" + port
	return s
}

// unreached returns the attributes of operations that got no connection to the server.
func (s server) unreached() server { return server{attributes: s.attributes} }

// sent returns the text of a command, given its query text.
func sent(to server, query string) string {
	name, _, _ := strings.Cut(query, " ")
	return name + to.attributes + " | operation.name=" + name + " | query.text=" + query + to.peer
}

// batch returns the text of a pipeline or a transaction.
func batch(to server, name string, size int) string {
	s := name + to.attributes + " | operation.name=" + name
	if size > 1 {
		s += fmt.Sprintf(" | operation.batch.size=%d", size)
	}
	return s + to.peer
}

// refused and failed return the text of an operation that failed: with an error of Redis, or another one.
func refused(op, status string) string {
	return op + " | response.status_code=" + status + " | error.type=" + status + " | failed"
}

func failed(op, typ string) string { return op + " | error.type=" + typ + " | failed" }

// A step is a command of the target, its answer, in which * stands for any text, and the spans that it causes.
type step struct {
	command, answer string
	want            []string
}

// run executes steps and compares their spans.
func (o *target) run(steps []step) []*spans.Span {
	o.t.Helper()
	var want, from []string
	for _, s := range steps {
		answer := o.Command(s.command)
		before, after, open := strings.Cut(s.answer, "*")
		if answer != s.answer && !(open && strings.HasPrefix(answer, before) && strings.HasSuffix(answer, after)) {
			o.t.Errorf("%s: answer %q, want %q", s.command, answer, s.answer)
		}
		for _, w := range s.want {
			want, from = append(want, w), append(from, s.command)
		}
	}
	all := o.end()
	for i := range max(len(all), len(want)) {
		var g, w, f string
		if i < len(all) {
			g = text(all[i])
		}
		if i < len(want) {
			w, f = want[i], from[i]
		}
		if g != w {
			o.t.Errorf("span %d (%s):\n got %s\nwant %s", i, f, g, w)
		}
	}
	for _, s := range all {
		if s.Kind != trace.SpanKindClient || s.Library != o.version.library() || s.End < s.Start || time.Duration(s.End-s.Start) > time.Minute || s.Object == 0 {
			o.t.Errorf("%+v", s)
		}
	}
	return all
}

func one(want ...string) []string { return want }

// TestCommands sends commands, pipelines and transactions by clients of one server.
func TestCommands(t *testing.T) {
	each(t, loupe.SpanOptions{}, false, func(o *target) {
		plain, zero := at(o.servers.main, 3), at(o.servers.main, 0)
		var unwatch []string
		for _, name := range o.version.unwatch {
			unwatch = append(unwatch, sent(plain, name))
		}
		steps := []step{
			{"do plain set k secret", "ok", one(sent(plain, "set k ?"))},
			{"do plain get k", "ok", one(sent(plain, "get k"))},
			{"do plain get none", "nil", one(sent(plain, "get none"))},
			{"do zero GET k", "nil", one(sent(zero, "GET k"))},
			{"do plain mset a 1 b 2", "ok", one(sent(plain, "mset a ? b ?"))},
			{"do plain mget a b c d e f g h", "ok", one(sent(plain, "mget a b c d e ? ? ?"))},
			{"do plain ping secret", "ok", one(sent(plain, "ping ?"))},
			{"do plain ping", "ok", one(sent(plain, "ping"))},
			{"do plain incrby n #5", "ok", one(sent(plain, "incrby n ?"))},
			{"do plain set #7 #5", "ok", one(sent(plain, "set ? ?"))},
			{"do plain lpush n 1", "failed WRONGTYPE*", one(refused(sent(plain, "lpush n ?"), "WRONGTYPE"))},
			{"do plain nonsense secret", "failed ERR*", one(refused(sent(plain, "nonsense ?"), "ERR"))},
			{"do unix config set maxmemory 0", "ok", one(sent(at(o.servers.socket, 0), "config set ? ?"))},
			{"do conn get k", "ok", one(sent(plain, "get k"))},
			{"pipe plain get k , set k v , incr n", "ok", one(batch(plain, "PIPELINE", 3))},
			{"pipe plain get k , get a", "ok", one(batch(plain, "PIPELINE get", 2))},
			{"pipe plain get k", "ok", one(batch(plain, "get", 1))},
			{"pipe conn incr n , incr n", "ok", one(batch(plain, "PIPELINE incr", 2))},
			{"pipe plain get k , lpush n 1", "failed WRONGTYPE*", one(batch(plain, "PIPELINE", 2))},
			{"multi plain set k v , get k", "ok", one(batch(plain, "MULTI", 2))},
			{"multi plain incr n , incr n", "ok", one(batch(plain, "MULTI incr", 2))},
			{"multi plain incr n", "ok", one(batch(plain, "MULTI incr", 1))},
			{"multi plain nonsense , incr n", "failed EXECABORT*", one(refused(batch(plain, "MULTI", 2), "EXECABORT"))},
			{"watch plain w same", "ok", append(one(sent(plain, "watch w"), sent(plain, "get w"), batch(plain, "MULTI", 2)), unwatch...)},
			{"watch plain w other", "failed redis: transaction failed", append(one(sent(plain, "watch w"), sent(plain, "get w"), sent(plain, "set w ?"),
				failed(batch(plain, "MULTI", 2), "proto.RedisError")), unwatch...)},
			{"subscribe news", "ok", one(sent(plain, "publish ? ?"))},
		}
		if o.version.name != "8.0" { // in which this panics
			steps = append(steps, step{"multi conn incr n , incr n", "ok", one(batch(plain, "MULTI incr", 2))})
		}
		o.run(steps)
	})
}

// TestFailures lets operations fail, and be attempted again.
func TestFailures(t *testing.T) {
	each(t, loupe.SpanOptions{}, false, func(o *target) {
		main := at(o.servers.main, 0)
		gone, refusedAt := at("127.0.0.1:1", 0).unreached(), "failed dial tcp 127.0.0.1:1: connect: connection refused"
		const dial, cancelled, late, eof = "*net.OpError", "*errors.errorString", "context.deadlineExceededError", "*errors.errorString"
		lost := step{"pipe lost get k , get a", "failed context deadline exceeded", one(failed(batch(gone, "PIPELINE get", 2), late))}
		if o.version.major == 8 { // it does not attempt to connect again
			lost.answer, lost.want = refusedAt, one(failed(batch(gone, "PIPELINE get", 2), dial))
		}
		paused := late
		if o.version.name == "8.0" { // the end of the pause is not observed
			paused = dial
		}
		panics := sent(main, "set k ?")
		if o.version.name == "9.23" {
			panics = failed(panics, "*fmt.wrapError")
		}
		flaky := at(o.Command("flaky"), 0)
		dropped := flaky
		if o.version.major == 9 { // it sends commands to begin a connection
			dropped = flaky.unreached()
		}
		o.run([]step{
			{"do refused get k", refusedAt, one(failed(sent(gone, "get k"), dial))},
			{"pipe refused get k , get a", refusedAt, one(failed(batch(gone, "PIPELINE get", 2), dial))},
			{"multi refused get k , get a", refusedAt, one(failed(batch(gone, "MULTI get", 2), dial))},
			{"timeout 0", "ok", nil},
			{"do zero get k", "failed context canceled", one(failed(sent(main.unreached(), "get k"), cancelled))},
			{"timeout 0", "ok", nil},
			{"pipe zero get k , get a", "failed context canceled", one(failed(batch(main.unreached(), "PIPELINE get", 2), cancelled))},
			{"timeout 50", "ok", nil},
			{"do lost get k", "failed context deadline exceeded", one(failed(sent(gone, "get k"), paused))},
			{"timeout 50", "ok", nil},
			lost,
			{"drop 9", "ok", nil},
			{"pipe flaky get k , get a", "failed EOF", one(failed(batch(dropped, "PIPELINE get", 2), eof))},
			{"drop 9", "ok", nil},
			{"do flaky get k", "failed EOF", one(failed(sent(dropped, "get k"), eof))},
			{"drop 2", "ok", nil},
			{"do flaky get k", "nil", one(sent(flaky, "get k"))},
			{"do hasty debug sleep 0.2", "failed *i/o timeout", one(failed(sent(main, "debug sleep ?"), dial))},
			{"do zero get k", "nil", one(sent(main, "get k"))},
			{"pipe hasty debug sleep 0.2 , get k", "failed *i/o timeout", one(failed(batch(main, "PIPELINE", 2), dial))},
			{"do zero get k", "nil", one(sent(main, "get k"))},
			{"panic zero", "panic cannot encode", one(panics)},
			{"goexit conn", "ok", one(sent(at(o.servers.main, 3), "set k ?"))},
		})
	})
}

// TestClients uses clients that have several servers. In the background, they send commands by themselves.
func TestClients(t *testing.T) {
	each(t, loupe.SpanOptions{}, true, func(o *target) {
		node, second, main, other := at(o.servers.cluster, 0), at(o.servers.second, 0), at(o.servers.main, 0), at(o.servers.other, 0)
		master := server{" | system.name=redis | namespace=0", main.peer} // the address of the client is that of no server
		steps := []step{
			{"do cluster set k v", "ok", one(sent(node, "set k ?"))},
			{"do cluster get none", "nil", one(sent(node, "get none"))},
			{"do cluster lpush k v", "failed WRONGTYPE*", one(refused(sent(node, "lpush k ?"), "WRONGTYPE"))},
			{"pipe cluster get k , set j v", "ok", one(batch(node, "PIPELINE", 2))},
			{"multi cluster incr {t}a , incr {t}b", "ok", one(batch(node, "MULTI incr", 2))},
			{"do stale set foo v", "ok", one(refused(sent(node, "set foo ?"), "MOVED"), sent(second, "set foo ?"))},
			{"do failover get k", "nil", one(sent(master, "get k"))},
			{"pipe failover get k , get a", "nil", one(batch(master, "PIPELINE get", 2))},
		}
		if o.version.major == 8 { // it knows no keys, and so it sends the commands of a transaction to several nodes
			steps[4] = step{"multi cluster incr a", "ok", one(batch(node, "MULTI incr", 1))}
		}
		if o.version.major == 8 && !slices.ContainsFunc(o.SpanFunctions(), func(f string) bool { return strings.HasSuffix(f, ")._processPipelineNode") }) {
			steps[3].want, steps[4].want = nil, nil // the compiler has inlined the functions
		}
		var want []string
		for _, s := range steps {
			before, _, _ := strings.Cut(s.answer, "*")
			if got := o.Command(s.command); !strings.HasPrefix(got, before) {
				o.t.Errorf("%s: answer %q, want %q", s.command, got, s.answer)
			}
			want = append(want, s.want...)
		}
		for i := range 20 {
			o.Command(fmt.Sprintf("do ring set k%d v", i))
		}
		if got := o.Command("multi ring incr {t}a , incr {t}b"); got != "ok" {
			o.t.Errorf("ring: %q", got)
		}
		var got []string
		shards := map[string]int{}
		sentinels := 0
		for _, s := range o.end() {
			// A node whose address is that of this machine has only a port to some versions.
			text := strings.ReplaceAll(text(s), "server.address=localhost", "server.address=127.0.0.1")
			switch {
			case s.Name == "cluster" || s.Name == "command" || s.Name == "ping":
				// v8 does not understand what Redis 7 answers to "command".
				if s.Status != codes.Unset && (s.Name != "command" || o.version.major != 8) || s.Ending != spans.Returned {
					o.t.Errorf("%s", text)
				}
			case s.Name == "sentinel":
				sentinels++
				if !strings.HasPrefix(text, "sentinel"+at(o.servers.sentinel, 0).attributes+" | operation.name=sentinel | query.text=sentinel ") || s.Status != codes.Unset {
					o.t.Errorf("%s", text)
				}
			case s.Name == "set" && strings.Contains(text, "set k ?") || !strings.HasPrefix(s.Name, "set") && s.Name != "MULTI incr" || strings.Contains(text, node.attributes) || strings.Contains(text, second.attributes):
				got = append(got, text)
			default:
				shards[strings.NewReplacer(main.attributes, " main", other.attributes, " other", main.peer, "", other.peer, "").Replace(text)]++
			}
		}
		if !slices.Equal(got, want) {
			o.t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if sentinels == 0 {
			o.t.Error("no commands to the sentinel")
		}
		checkShards(o, shards)
	})
}

// checkShards checks the spans of 20 commands and a transaction by a Ring, counted by their texts.
func checkShards(o *target, shards map[string]int) {
	o.t.Helper()
	by := map[string]int{}
	transactions := 0
	for s, n := range shards {
		name, rest, _ := strings.Cut(s, " ")
		server, rest, _ := strings.Cut(rest, " ")
		switch {
		case name == "set" && strings.HasPrefix(rest, "| operation.name=set | query.text=set k"):
			by[server] += n
		case strings.HasPrefix(s, "MULTI incr ") && strings.HasSuffix(s, " | operation.name=MULTI incr | operation.batch.size=2"):
			transactions += n
		default:
			o.t.Errorf("%d of %s", n, s)
		}
	}
	if by["main"] == 0 || by["other"] == 0 || by["main"]+by["other"] != 20 || len(by) != 2 || transactions != 1 {
		o.t.Errorf("commands by shards: %v, and %d transactions; want 20 and 1", by, transactions)
	}
}

// TestInside sends commands in requests of HTTP, without their texts: one after the other, by other goroutines, and on many goroutines at
// once.
func TestInside(t *testing.T) {
	const goroutines, rounds = 60, 5
	each(t, loupe.SpanOptions{NoQueryText: true}, false, func(o *target) {
		plain := at(o.servers.main, 3)
		command := func(to server, name string) string {
			return name + to.attributes + " | operation.name=" + name + to.peer
		}
		want := []string{command(plain, "get"), batch(plain, "PIPELINE get", 2), batch(plain, "MULTI incr", 2),
			failed(command(at("127.0.0.1:1", 0).unreached(), "get"), "*net.OpError")}
		for _, c := range []string{"do plain get k", "pipe plain get k , get a", "multi plain incr n , incr n", "do refused get k"} {
			o.Command("inside " + c)
		}
		own := len(want)
		for i, c := range []string{"do plain get k", "pipe plain get k , get a", "multi plain incr n , incr n"} {
			o.Command("pooled " + c)
			want = append(want, want[i])
		}
		if answer := o.Command(fmt.Sprintf("load %d %d", goroutines, rounds)); answer != "load 0" {
			o.t.Error(answer)
		}
		client, requests := o.end(), map[trace.SpanID]*spans.Span{}
		for _, s := range o.all {
			if s.Kind == trace.SpanKindServer {
				requests[s.Context.SpanID()] = s
			}
		}
		if n := len(want) + 3*goroutines*rounds; len(client) != n || len(requests) != n {
			o.t.Fatalf("%d operations in %d requests, want %d", len(client), len(requests), n)
		}
		counts := map[string]int{}
		for i, s := range client {
			request, rule := requests[s.Parent.SpanID()], spans.RuleGoroutine
			if i >= own && i < len(want) {
				rule = spans.RuleContext
			}
			if request == nil || s.Context.TraceID() != request.Context.TraceID() || s.Rule != rule ||
				s.Start < request.Start || s.End > request.End {
				o.t.Errorf("%+v is not in a request, or in one with another operation", s)
			}
			delete(requests, s.Parent.SpanID())
			if i < len(want) {
				if got := text(s); got != want[i] {
					o.t.Errorf("operation %d: %s, want %s", i, got, want[i])
				}
				continue
			}
			counts[text(s)]++
		}
		for _, w := range []string{command(plain, "incr"), batch(plain, "PIPELINE incr", 2), batch(plain, "MULTI", 2)} {
			if counts[w] != goroutines*rounds {
				o.t.Errorf("%d of %s, want %d", counts[w], w, goroutines*rounds)
			}
		}
	})
}
