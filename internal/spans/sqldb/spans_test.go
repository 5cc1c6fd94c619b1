package sqldb_test

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// ledgers returns builds of target ledger for the releases that have the set, with DWARF and without in turn.
func ledgers(t *testing.T) []testtarget.Spec {
	var specs []testtarget.Spec
	for i, release := range testtarget.Among(t, slices.DeleteFunc(testtarget.AllVersions(), func(v string) bool {
		return v < "1.19"
	})...) {
		spec := testtarget.Spec{Program: "ledger", Go: release}
		for _, stripped := range []bool{false, true} {
			if spec.Stripped = stripped; stripped == (i%2 == 0) || release == testtarget.Latest() {
				specs = append(specs, spec)
			}
		}
	}
	return specs
}

// ends returns the first and the last of specs.
func ends(specs []testtarget.Spec) []testtarget.Spec {
	return []testtarget.Spec{specs[0], specs[len(specs)-1]}
}

// A ledger is a target that runs.
type ledger struct {
	*testtarget.Process
	spec   testtarget.Spec
	engine loupe.Engine // with which it is to be observed
}

func (l *ledger) commands(lines ...string) {
	for _, line := range lines {
		l.Command(line)
	}
}

// each runs a test with each engine on each build.
func each(t *testing.T, specs []testtarget.Spec, test func(t *testing.T, target *ledger)) {
	for _, spec := range specs {
		spanstest.Run(t, spec, spanstest.Engines(), func(t *testing.T, engine loupe.Engine) {
			test(t, &ledger{testtarget.Start(t, testtarget.Build(t, spec)), spec, engine})
		})
	}
}

// An observation collects the spans of a target.
type observation struct {
	*spanstest.Session
	t   *testing.T
	all []*spans.Span
}

func observe(t *testing.T, target *ledger, opt loupe.SpanOptions) *observation {
	t.Helper()
	o := &observation{t: t, Session: spanstest.Attach(t, target.PID(), loupe.Options{Engine: target.engine, Spans: opt, BufferBytes: 16 << 20})}
	o.NoWarnings()
	return o
}

// end returns the spans of database/sql in the order of their ends.
func (o *observation) end() []*spans.Span {
	o.t.Helper()
	o.all = o.End()
	c, err := o.SpanCounts()
	if err != nil || c.Mismatched > 0 || c.Notes.Lost > 0 || c.Notes.Garbled > 0 || c.Notes.Full > 0 || c.Notes.Unreadable > 0 {
		o.t.Errorf("%+v, %v", c, err)
	}
	return slices.DeleteFunc(slices.Clone(o.all), func(s *spans.Span) bool { return s.Library != sqldb.Library })
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

// Attributes of the databases of target ledger.
const (
	books  = " | system.name=postgresql | server.address=db.example | server.port=5433 | namespace=books"
	plain  = " | system.name=other_sql"
	custom = plain
)

// inTx precedes the type of the error of a statement in a transaction, which engine inline does not report on amd64 since Go 1.27.
const inTx = "in transaction: "

func (l *ledger) untyped() bool {
	return l.engine == loupe.EngineInline && runtime.GOARCH == "amd64" && l.spec.Go >= "1.27"
}

// A step is a command, what the target must answer, and the spans.
type step struct {
	command, answer string
	want            []string
}

func query(verb, table, db, text string) string {
	return verb + " " + table + db + " | operation.name=" + verb + " | collection.name=" + table + " | query.summary=" + verb + " " + table + " | query.text=" + text
}

func prepare(rest, db, text string) string {
	s := query("PREPARE "+strings.Fields(rest)[0], strings.Fields(rest)[1], db, text)
	return strings.Replace(s, "operation.name=PREPARE "+strings.Fields(rest)[0], "operation.name=PREPARE", 1)
}

func simple(verb, db string) string { return verb + db + " | operation.name=" + verb }

func failed(span, typ string) string { return span + " | error.type=" + typ + " | failed" }

const noRows = "failed sql: no rows in result set"

var steps = []step{
	{"do db query SELECT a, b FROM orders WHERE id = 7", "ok", []string{query("SELECT", "orders", books, "SELECT a, b FROM orders WHERE id = ?")}},
	{"do db query SELECT a FROM orders WHERE id = ? AND b = 1", "ok", []string{query("SELECT", "orders", books, "SELECT a FROM orders WHERE id = ? AND b = 1")}},
	{"do db row SELECT a FROM orders", noRows, []string{query("SELECT", "orders", books, "SELECT a FROM orders")}},
	{"do db exec INSERT INTO orders VALUES ('x', ?)", "ok", []string{query("INSERT", "orders", books, "INSERT INTO orders VALUES ('x', ?)")}},
	{"do db ping", "ok", []string{simple("PING", books)}},
	{"do plain query SELECT a FROM t", "ok", []string{query("SELECT", "t", plain, "SELECT a FROM t")}},
	{"do plain exec DELETE FROM t", "ok", []string{query("DELETE", "t", plain, "DELETE FROM t")}},
	{"do plain ping", "ok", []string{simple("PING", plain)}},
	{"do custom exec UPDATE t SET a = 1", "ok", []string{query("UPDATE", "t", custom, "UPDATE t SET a = ?")}},

	// Errors, and retries of operations with another connection.
	{"trouble error 1", "ok", nil},
	{"do db query SELECT 1 FROM t", "failed 42P01", []string{failed(query("SELECT", "t", books, "SELECT ? FROM t"), "*pq.Error")}},
	{"trouble code 1", "ok", nil},
	{"do db exec DELETE FROM t", "failed 42", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), "pq.Code")}},
	{"trouble skip 1", "ok", nil},
	{"do db query SELECT a FROM t", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t")}},
	{"trouble bad 2", "ok", nil},
	{"do db query SELECT a FROM t", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t")}},
	{"trouble wrapped 2", "ok", nil},
	{"do db exec DELETE FROM t", "ok", []string{query("DELETE", "t", books, "DELETE FROM t")}},
	{"trouble bad 3", "ok", nil},
	{"do db exec DELETE FROM t", "failed driver: bad connection", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), "*errors.errorString")}},
	{"trouble bad 2", "ok", nil},
	{"trouble error 1", "ok", nil},
	{"do db exec DELETE FROM t", "failed 42P01", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), "*pq.Error")}},
	{"trouble bad 1", "ok", nil},
	{"trouble refused 1", "ok", nil},
	{"do db query SELECT a FROM t", "failed refused", []string{failed(query("SELECT", "t", books, "SELECT a FROM t"), "*pq.Error")}},
	{"trouble error 1", "ok", nil},
	{"do db ping", "failed 42P01", []string{failed(simple("PING", books), "*pq.Error")}},
	{"trouble error 1", "ok", nil},
	{"do db begin", "failed 42P01", []string{failed(simple("BEGIN", books), "*pq.Error")}},
	{"trouble error 1", "ok", nil},
	{"do db prepare SELECT a FROM t", "failed 42P01", []string{failed(prepare("SELECT t", books, "SELECT a FROM t"), "*pq.Error")}},
	{"timeout 0", "ok", nil},
	{"do db query SELECT a FROM t", "failed context canceled", []string{failed(query("SELECT", "t", books, "SELECT a FROM t"), "*errors.errorString")}},
	{"trouble sleep 1", "ok", nil},
	{"timeout 5", "ok", nil},
	{"do db query SELECT a FROM t", "failed context deadline exceeded", []string{failed(query("SELECT", "t", books, "SELECT a FROM t"), "context.deadlineExceededError")}},

	// Prepared statements.
	{"do db prepare SELECT a FROM t WHERE b = 1", "ok", []string{prepare("SELECT t", books, "SELECT a FROM t WHERE b = 1")}},
	{"do stmt query", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1")}},
	{"do stmt exec", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1")}},
	{"do stmt row", noRows, []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1")}},
	{"trouble bad 1", "ok", nil},
	{"do stmt query", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1")}},
	{"trouble error 1", "ok", nil},
	{"do stmt exec", "failed 42P01", []string{failed(query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1"), "*pq.Error")}},
	{"do stmt close", "ok", nil},
	{"do stmt exec", "failed sql: statement is closed", []string{failed(query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1"), "*errors.errorString")}},

	// Transactions.
	{"do db begin", "ok", []string{simple("BEGIN", books)}},
	{"do tx exec INSERT INTO t VALUES (1)", "ok", []string{query("INSERT", "t", books, "INSERT INTO t VALUES (?)")}},
	{"do tx exec INSERT INTO t VALUES (1, ?)", "ok", []string{query("INSERT", "t", books, "INSERT INTO t VALUES (1, ?)")}},
	{"do tx query SELECT a FROM t WHERE b = 1", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = ?")}},
	{"do tx query SELECT a FROM t WHERE b = 1 AND c = ?", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = 1 AND c = ?")}},
	{"trouble error 1", "ok", nil},
	{"do tx exec DELETE FROM t", "failed 42P01", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), inTx+"*pq.Error")}},
	{"trouble code 1", "ok", nil},
	{"do tx query SELECT a FROM t", "failed 42", []string{failed(query("SELECT", "t", books, "SELECT a FROM t"), inTx+"pq.Code")}},
	{"do tx prepare UPDATE t SET a = ?", "ok", []string{prepare("UPDATE t", books, "UPDATE t SET a = ?")}},
	{"do txstmt exec", "ok", []string{query("UPDATE", "t", books, "UPDATE t SET a = ?")}},
	{"do txstmt query", "ok", []string{query("UPDATE", "t", books, "UPDATE t SET a = ?")}},
	{"trouble error 1", "ok", nil},
	{"do txstmt query", "failed 42P01", []string{failed(query("UPDATE", "t", books, "UPDATE t SET a = ?"), "*pq.Error")}},
	{"do tx commit", "ok", []string{simple("COMMIT", books)}},
	{"do tx commit", "failed sql: transaction has already been committed or rolled back", nil},
	{"do tx rollback", "failed sql: transaction has already been committed or rolled back", nil},
	{"do tx exec DELETE FROM t", "failed sql: transaction has already been committed or rolled back", nil},
	{"do plain begin", "ok", []string{simple("BEGIN", plain)}},
	{"trouble error 1", "ok", nil},
	{"do tx rollback", "failed 42P01", []string{failed(simple("ROLLBACK", plain), "*pq.Error")}},
	{"do db begin", "ok", []string{simple("BEGIN", books)}},
	{"trouble error 1", "ok", nil},
	{"do tx commit", "failed 42P01", []string{failed(simple("COMMIT", books), "*pq.Error")}},
	{"do db begin", "ok", []string{simple("BEGIN", books)}},
	{"do tx rollback", "ok", []string{simple("ROLLBACK", books)}},

	// Connections.
	{"do db conn", "ok", nil},
	{"do conn ping", "ok", []string{simple("PING", books)}},
	{"do conn query SELECT a FROM t WHERE b = ?", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t WHERE b = ?")}},
	{"do conn exec DELETE FROM t", "ok", []string{query("DELETE", "t", books, "DELETE FROM t")}},
	{"trouble error 1", "ok", nil},
	{"do conn exec DELETE FROM t", "failed 42P01", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), "*pq.Error")}},
	{"do conn prepare SELECT a FROM t", "ok", []string{prepare("SELECT t", books, "SELECT a FROM t")}},
	{"do stmt query", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t")}},
	{"do conn begin", "ok", []string{simple("BEGIN", books)}},
	{"do tx commit", "ok", []string{simple("COMMIT", books)}},
	{"trouble bad 1", "ok", nil},
	{"do conn ping", "failed driver: bad connection", []string{failed(simple("PING", books), "*errors.errorString")}},
	{"do conn ping", "failed sql: connection is already closed", nil},

	// Unusual statements.
	{"do db exec empty", "ok", []string{"postgresql" + books}},
	{"do db exec binary", "ok", []string{"SELECT \uFFFD" + books + " | operation.name=SELECT | collection.name=\uFFFD | query.summary=SELECT \uFFFD" +
		" | query.text=SELECT\x00\uFFFD FROM \x01\uFFFD"}},
	{"do db query wide", "ok", []string{query("SELECT", "wide", books, "SELECT "+strings.Repeat("a, ", 339))}},
	{"do db query wider", "ok", []string{"SELECT wider" + books + " | query.summary=SELECT wider | query.text=SELECT " + strings.Repeat("a, ", 339)}},
	{"do db query huge", "ok", []string{"SELECT huge" + books + " | query.summary=SELECT huge | query.text=SELECT * FROM huge WHERE a = ?"}},

	// Both idle connections are bad, and there is no other. Nothing reports the end of the last attempt.
	{"do db conn", "ok", nil},
	{"do db ping", "ok", []string{simple("PING", books)}},
	{"do conn close", "ok", nil},
	{"trouble bad 2", "ok", nil},
	{"trouble refused 1", "ok", nil},
	{"do db exec DELETE FROM t", "failed refused", nil},
	{"do db ping", "ok", []string{failed(query("DELETE", "t", books, "DELETE FROM t"), "_OTHER") + " | ending 2", simple("PING", books)}},

	// A driver that panics: nothing reports the end of a query, that of an execution is its success.
	{"trouble panic 1", "ok", nil},
	{"do db query SELECT a FROM t", "failed trouble", nil},
	{"do db ping", "ok", []string{query("SELECT", "t", books, "SELECT a FROM t") + " | ending 2", simple("PING", books)}},
}

// TestSpans compares the spans of operations with what the program did.
func TestSpans(t *testing.T) {
	each(t, testtarget.Ends(t, ledgers(t)), func(t *testing.T, target *ledger) {
		o := observe(t, target, loupe.SpanOptions{})
		var want []string
		for _, s := range steps {
			if got := target.Command(s.command); got != s.answer {
				t.Errorf("%s: answer %q, want %q", s.command, got, s.answer)
			}
			want = append(want, s.want...)
		}
		var got []string
		for _, s := range o.end() {
			if s.Kind != trace.SpanKindClient || s.End < s.Start || time.Duration(s.End-s.Start) > time.Minute || s.Parent.IsValid() || s.Object == 0 {
				t.Errorf("%+v", s)
			}
			got = append(got, text(s))
		}
		for i, w := range want {
			before, typ, ok := strings.Cut(w, inTx)
			if ok && target.untyped() {
				_, typ, _ = strings.Cut(typ, " ")
				typ = "_OTHER " + typ
			}
			want[i] = before + typ
		}
		for i := range max(len(got), len(want)) {
			var g, w string
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if g != w {
				t.Errorf("span %d:\n got %s\nwant %s", i, g, w)
			}
		}
	})
}

// TestPool checks that the wait for a connection is part of an operation.
func TestPool(t *testing.T) {
	each(t, ends(ledgers(t))[1:], func(t *testing.T, target *ledger) {
		o := observe(t, target, loupe.SpanOptions{})
		target.commands("pool 1", "do db conn", "timeout 100", "do db exec DELETE FROM t")
		all := o.end()
		want := failed(query("DELETE", "t", books, "DELETE FROM t"), "context.deadlineExceededError")
		if len(all) != 1 || text(all[0]) != want || all[0].End-all[0].Start < 30e6 {
			t.Errorf("%+v, want %s", all, want)
		}
	})
}

// TestContextEnds ends the context of a transaction: the package rolls it back and discards the connection.
func TestContextEnds(t *testing.T) {
	each(t, ends(ledgers(t)), func(t *testing.T, target *ledger) {
		o := observe(t, target, loupe.SpanOptions{})
		target.commands("timeout 10", "do db begin")
		time.Sleep(200 * time.Millisecond)
		var got []string
		for _, s := range o.end() {
			got = append(got, text(s))
		}
		if want := []string{simple("BEGIN", books), simple("ROLLBACK", books)}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// TestInside performs operations in requests of HTTP.
func TestInside(t *testing.T) {
	each(t, ends(ledgers(t)), func(t *testing.T, target *ledger) {
		o := observe(t, target, loupe.SpanOptions{NoQueryText: true})
		for range 3 {
			target.commands("inside db query SELECT a FROM t", "inside db begin", "inside tx exec DELETE FROM t", "inside tx commit")
		}
		all := o.end()
		var servers []*spans.Span
		for _, s := range o.all {
			if s.Kind == trace.SpanKindServer {
				servers = append(servers, s)
			}
		}
		if len(all) != 12 || len(servers) != 12 {
			t.Fatalf("%d operations in %d requests, want 12", len(all), len(servers))
		}
		for i, s := range all {
			if s.Parent.SpanID() != servers[i].Context.SpanID() || s.Context.TraceID() != servers[i].Context.TraceID() || s.Rule != spans.RuleGoroutine ||
				s.Start < servers[i].Start || s.End > servers[i].End {
				t.Errorf("%+v is not in %+v", s, servers[i])
			}
			if strings.Contains(text(s), "query.text") {
				t.Errorf("the text is reported: %s", text(s))
			}
		}
	})
}

// TestUnparsed reports statements without what is in their text.
func TestUnparsed(t *testing.T) {
	spec := ends(ledgers(t))[1]
	target := &ledger{testtarget.Start(t, testtarget.Build(t, spec)), spec, loupe.EngineInline}
	o := observe(t, target, loupe.SpanOptions{NoQueryParsing: true})
	target.commands("do db query SELECT a FROM t", "do db prepare DELETE FROM t WHERE a = ?", "do db begin")
	var got []string
	for _, s := range o.end() {
		got = append(got, text(s))
	}
	want := []string{"postgresql" + books + " | query.text=SELECT a FROM t",
		"PREPARE" + books + " | operation.name=PREPARE | query.summary=PREPARE | query.text=DELETE FROM t WHERE a = ?", simple("BEGIN", books)}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPooled performs operations for requests of HTTP in goroutines that exist before these. Their contexts name the requests.
func TestPooled(t *testing.T) {
	specs := ledgers(t)
	if !testtarget.Requested() {
		specs = specs[len(specs)-1:]
	}
	each(t, specs, func(t *testing.T, target *ledger) {
		const goroutines, rounds = 10, 10
		o := observe(t, target, loupe.SpanOptions{})
		target.commands(fmt.Sprintf("pooled %d %d", goroutines, rounds))
		all := o.end()
		slices.SortStableFunc(all, func(a, b *spans.Span) int { return cmp.Compare(a.Start, b.Start) })
		requests, got := map[trace.SpanID]*spans.Span{}, map[trace.SpanID][]string{}
		for _, s := range o.all {
			if s.Kind == trace.SpanKindServer {
				requests[s.Context.SpanID()] = s
			}
		}
		for _, s := range all {
			request := requests[s.Parent.SpanID()]
			if request == nil || s.Rule != spans.RuleContext || s.Context.TraceID() != request.Context.TraceID() || s.G == request.G ||
				s.Start < request.Start || s.End > request.End {
				t.Errorf("%s: parent %v by rule %q", text(s), s.Parent.SpanID(), s.Rule)
			}
			got[s.Parent.SpanID()] = append(got[s.Parent.SpanID()], text(s))
		}
		want := []string{simple("PING", books), query("SELECT", "loads", books, "SELECT n FROM loads WHERE n = ?"), prepare("DELETE loads", books, "DELETE FROM loads"),
			query("DELETE", "loads", books, "DELETE FROM loads"), simple("BEGIN", books), query("UPDATE", "loads", books, "UPDATE loads SET n = ?"), simple("COMMIT", books),
			simple("BEGIN", books), simple("ROLLBACK", books), query("UPDATE", "loads", books, "UPDATE loads SET n = ?")}
		if len(requests) != goroutines*rounds || len(got) != goroutines*rounds {
			t.Errorf("%d requests, %d with operations, want %d", len(requests), len(got), goroutines*rounds)
		}
		for _, list := range got {
			if !slices.Equal(list, want) {
				t.Fatalf("a request has\n%s\nwant\n%s", strings.Join(list, "\n"), strings.Join(want, "\n"))
			}
		}
	})
}

// TestLoad performs operations in several goroutines at once.
func TestLoad(t *testing.T) {
	each(t, ends(ledgers(t)), func(t *testing.T, target *ledger) {
		const goroutines, rounds = 8, 100
		o := observe(t, target, loupe.SpanOptions{})
		target.commands(fmt.Sprintf("load %d %d", goroutines, rounds))
		counts, by := map[string]int{}, map[uint64]int{}
		for _, s := range o.end() {
			counts[text(s)]++
			by[s.G]++
		}
		want := map[string]int{}
		for _, s := range []string{simple("BEGIN", books), query("SELECT", "loads", books, "SELECT n FROM loads WHERE n = ?"),
			query("UPDATE", "loads", books, "UPDATE loads SET n = ?"), simple("COMMIT", books)} {
			want[s] = goroutines * rounds
		}
		if !maps.Equal(counts, want) || len(by) != goroutines {
			t.Errorf("%v of %d goroutines, want %v", counts, len(by), want)
		}
	})
}
