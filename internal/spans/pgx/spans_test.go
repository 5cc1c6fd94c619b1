package pgx_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/pgx"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
	"github.com/loupe-go/loupe/internal/testpostgres"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of the module's, with the oldest Go release that builds it.
type version struct{ name, release string }

var versions = []version{{"5.0", "1.19.13"}, {"5.7", "1.23.12"}, {"5.13", "1.25.14"}}

// specs returns the builds of target clerk. Unless LOUPE_RELEASES chooses all releases, it is one of each of the oldest and the newest
// version.
func specs(t *testing.T) (list []testtarget.Spec) {
	spec := func(v version, release string, stripped bool) testtarget.Spec {
		return testtarget.Spec{Program: "clerk", Go: release, Stripped: stripped, Flags: "-modfile=pgx-" + v.name + ".mod"}
	}
	if !testtarget.Requested() {
		t.Log(testtarget.LeftOut + "versions of pgx other than the oldest and the newest, and other releases")
		return []testtarget.Spec{spec(versions[0], testtarget.OrLatest(t, versions[0].release), false), spec(versions[2], testtarget.Latest(), true)}
	}
	for _, v := range versions {
		for _, b := range testtarget.Variants(t, testtarget.Since(v.release)...) {
			list = append(list, spec(v, b.Go, b.Stripped))
		}
	}
	return list
}

// A clerk is a target that is observed.
type clerk struct {
	*testtarget.Process
	session *loupe.Session
	server  *testpostgres.Server
	name    string // of the target at the server
	missing []string
	t       *testing.T
	done    sync.WaitGroup
	all     []*spans.Span
}

// last returns the last of the builds, or all if LOUPE_RELEASES chooses all releases.
func last(specs []testtarget.Spec) []testtarget.Spec {
	if testtarget.Requested() {
		return specs
	}
	return specs[len(specs)-1:]
}

// each runs a test with each engine on each of some builds.
func each(t *testing.T, specs []testtarget.Spec, opt loupe.SpanOptions, test func(t *testing.T, c *clerk)) {
	server := testpostgres.Start(t)
	for i, spec := range specs {
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			t.Run(string(engine)+"/"+spec.String(), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF needs root")
				}
				c := &clerk{Process: testtarget.Start(t, testtarget.Build(t, spec)), server: server, name: fmt.Sprintf("clerk%d%s", i, engine), t: t}
				c.do("connect "+server.DSN(c.name), "ok")
				c.do("do conn exec DROP TABLE IF EXISTS numbers, loads", "ok")
				c.do("do conn exec CREATE TABLE numbers (a INT, b INT UNIQUE DEFERRABLE INITIALLY DEFERRED)", "ok")
				c.do("do conn exec CREATE TABLE loads (n INT)", "ok")
				c.observe(engine, opt)
				test(t, c)
			})
		}
	}
}

func (c *clerk) do(command, answer string) {
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
func (c *clerk) observe(engine loupe.Engine, opt loupe.SpanOptions) {
	c.t.Helper()
	opt.Handle = func(s *spans.Span) { c.all = append(c.all, s) }
	var err error
	c.session, err = loupe.Attach(context.Background(), loupe.PID(c.PID()), loupe.Options{Engine: engine, Spans: opt, BufferBytes: 16 << 20})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, w := range c.session.Warnings() {
		switch {
		case w.Kind == event.WarnTimes || w.Kind == event.WarnState: // not every machine has a reliable counter, or is idle
		case engine == loupe.EngineInline && c.lacks(w.Text):
			c.t.Logf("warning %q", w)
		default:
			c.t.Errorf("warning %q", w)
		}
	}
	c.done.Go(func() {
		for range c.session.Events() {
		}
	})
}

// limits are the operations whose ends engine inline may not observe, by the texts of its warnings. Later versions of pgx, and some
// releases of Go, have places for them.
var limits = map[string]string{"get no connection": "acquire", "atchResults).Close": "batch", "(*Conn).Prepare": "prepare"}

// lacks notes the limit in a warning. It reports whether there is one.
func (c *clerk) lacks(warning string) bool {
	for text, limit := range limits {
		if strings.Contains(warning, text) {
			c.missing = append(c.missing, limit)
			return true
		}
	}
	return false
}

// has reports whether the operations of a command are observed.
func (c *clerk) has(command string) bool {
	return !slices.ContainsFunc(c.missing, func(limit string) bool {
		return strings.Contains(command, limit) || limit == "prepare" && (strings.Contains(command, "named") || strings.Contains(command, "copy missing")) // which prepares, too
	})
}

// end returns the spans of databases in the order of their ends.
func (c *clerk) end() []*spans.Span {
	c.t.Helper()
	if err := c.session.Detach(); err != nil {
		c.t.Error(err)
	}
	c.done.Wait()
	n, err := c.session.SpanCounts()
	if err != nil || n.Begun != n.Ended || n.Mismatched > 0 || n.Notes.Lost > 0 || n.Notes.Garbled > 0 || n.Notes.Full > 0 || n.Notes.Unreadable > 0 {
		c.t.Errorf("%+v, %v", n, err)
	}
	if err := c.session.Close(); err != nil {
		c.t.Error(err)
	}
	return slices.DeleteFunc(slices.Clone(c.all), func(s *spans.Span) bool { return s.Library != pgx.Library && s.Library != sqldb.Library })
}

// text returns what a test expects of a span, without what all spans have.
func (c *clerk) text(s *spans.Span) string {
	c.t.Helper()
	var b strings.Builder
	b.WriteString(s.Name)
	common := fmt.Sprintf(" | system.name=postgresql | server.address=127.0.0.1 | server.port=%d | namespace=%s", c.server.Port, c.server.Database)
	var attributes strings.Builder
	for _, kv := range s.Attributes {
		fmt.Fprintf(&attributes, " | %s=%s", strings.TrimPrefix(string(kv.Key), "db."), kv.Value.String())
	}
	rest, ok := strings.CutPrefix(attributes.String(), common)
	if !ok {
		b.WriteString(" | of another server")
	}
	b.WriteString(rest)
	if s.Status == codes.Error {
		b.WriteString(" | failed")
	}
	if s.Ending != spans.Returned {
		fmt.Fprintf(&b, " | ending %d", s.Ending)
	}
	if s.Library == sqldb.Library {
		b.WriteString(" | database/sql")
	}
	if s.Kind != trace.SpanKindClient || s.End < s.Start || time.Duration(s.End-s.Start) > time.Minute {
		c.t.Errorf("%+v", s)
	}
	return b.String()
}

// compare compares the spans with those that are expected.
func compare(t *testing.T, got, want []string) {
	t.Helper()
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
}

// Texts of spans.
func statement(verb, table, text string) string {
	return verb + " " + table + " | operation.name=" + verb + " | collection.name=" + table + " | query.summary=" + verb + " " + table + " | query.text=" + text
}

func simple(verb, text string) string {
	return verb + " | operation.name=" + verb + " | query.summary=" + verb + " | query.text=" + text
}

func failed(span, code string) string {
	return span + " | response.status_code=" + code + " | error.type=" + code + " | failed"
}

func failedBy(span, typ string) string { return span + " | error.type=" + typ + " | failed" }

func standard(span string) string { return span + " | database/sql" }

// A step is a command, what the target must answer, and the spans.
type step struct {
	command, answer string
	want            []string
}

const (
	insert   = "INSERT INTO numbers VALUES ($1, $2)"
	deferred = "INSERT INTO numbers VALUES (1, 1), (2, 1)"
	begin    = "begin | operation.name=begin | query.summary=begin | query.text=begin"
)

// batch returns the span of a batch.
func batch(size int, summary, attributes string) string {
	return fmt.Sprintf("BATCH%s | operation.name=%s | operation.batch.size=%d", summary, attributes, size)
}

var steps = []step{
	{"do conn exec INSERT INTO numbers VALUES (1, 10)", "ok", []string{statement("INSERT", "numbers", "INSERT INTO numbers VALUES (?, ?)")}},
	{"do conn exec " + insert, "ok", []string{statement("INSERT", "numbers", insert)}},
	{"do conn exec " + insert + " -- again", "failed ERROR: duplicate key...", []string{failed(statement("INSERT", "numbers", insert+" -- again"), "23505")}},
	{"do conn simple DELETE FROM numbers WHERE a = 1", "ok", []string{statement("DELETE", "numbers", "DELETE FROM numbers WHERE a = ?")}},
	{"do conn exec " + deferred, "failed ERROR: duplicate key...", []string{failed(statement("INSERT", "numbers", "INSERT INTO numbers VALUES (?, ?), (?, ?)"), "23505")}},
	{"do conn exec INSERT INTO numbers VALUES (3, 1)", "ok", []string{statement("INSERT", "numbers", "INSERT INTO numbers VALUES (?, ?)")}},
	{"do conn query SELECT a FROM numbers WHERE a = $1", "ok", []string{statement("SELECT", "numbers", "SELECT a FROM numbers WHERE a = $1")}},
	{"do conn query SELECT a FROM numbers WHERE a = $1", "ok", []string{statement("SELECT", "numbers", "SELECT a FROM numbers WHERE a = $1")}},
	{"do conn query SELECT a FROM missing WHERE a = 1", "failed ERROR...", []string{failed(statement("SELECT", "missing", "SELECT a FROM missing WHERE a = ?"), "42P01")}},
	{"do conn exec DELETE FROM missing WHERE a = $1", "failed ERROR...", []string{failed(statement("DELETE", "missing", "DELETE FROM missing WHERE a = $1"), "42P01")}},
	{"do conn exec DELETE FROM missing", "failed ERROR...", []string{failed(statement("DELETE", "missing", "DELETE FROM missing"), "42P01")}},
	{"do conn query SELECT 1 / (a - a) FROM numbers", "failed ERROR...", []string{failed(statement("SELECT", "numbers", "SELECT ? / (a - a) FROM numbers"), "22012")}},
	{"do conn query INSERT INTO numbers VALUES (7, 1), (8, 1) RETURNING a", "failed ERROR...",
		[]string{failed(statement("INSERT", "numbers", "INSERT INTO numbers VALUES (?, ?), (?, ?) RETURNING a"), "23505")}},
	{"do conn early SELECT n FROM generate_series(1, 1000) n", "ok", []string{simple("SELECT", "SELECT n FROM generate_series(?, ?) n")}},
	{"do conn early SELECT 1 / (500 - n) FROM generate_series(1, 1000) n", "failed ERROR...",
		[]string{failed(simple("SELECT", "SELECT ? / (? - n) FROM generate_series(?, ?) n"), "22012")}},
	{"do conn row SELECT count(*) FROM numbers", "ok", []string{statement("SELECT", "numbers", "SELECT count(*) FROM numbers")}},
	{"do conn row SELECT a FROM numbers WHERE a = 99", "failed no rows in result set", []string{statement("SELECT", "numbers", "SELECT a FROM numbers WHERE a = ?")}},
	{"do conn row SELECT a, b FROM numbers LIMIT 1", "failed number of field...",
		[]string{failedBy(statement("SELECT", "numbers", "SELECT a, b FROM numbers LIMIT ?"), "*errors.errorString")}},
	{"do conn exec", "ok", []string{"postgresql"}},

	// Prepared statements. The second time, nothing is sent.
	{"do conn prepare put INSERT INTO numbers VALUES ($1)", "ok", []string{prepare("INSERT numbers", "INSERT INTO numbers VALUES ($1)")}},
	{"do conn prepare put INSERT INTO numbers VALUES ($1)", "ok", nil},
	{"do conn named put 3", "ok", []string{statement("INSERT", "numbers", "INSERT INTO numbers VALUES ($1)")}},
	{"do conn prepare bad SELECT a FROM missing", "failed ERROR...", []string{failed(prepare("SELECT missing", "SELECT a FROM missing"), "42P01")}},

	// Batches.
	{"do conn batch DELETE FROM numbers WHERE a = $1; DELETE FROM numbers WHERE a = $1", "ok",
		[]string{batch(2, " DELETE numbers", "BATCH DELETE | collection.name=numbers | query.summary=BATCH DELETE numbers | query.text=DELETE FROM numbers WHERE a = $1")}},
	{"do conn batch SELECT a FROM numbers; DELETE FROM loads WHERE n = 1; SELECT n FROM loads", "ok",
		[]string{batch(3, "", "BATCH | query.summary=BATCH | query.text=SELECT a FROM numbers; DELETE FROM loads WHERE n = ?; SELECT n FROM loads")}},
	{"do conn batch DELETE FROM numbers WHERE a = 5", "ok", []string{statement("DELETE", "numbers", "DELETE FROM numbers WHERE a = ?")}},
	{"do conn batch SELECT n FROM loads; SELECT 1 / n FROM generate_series(0, 1) n", "failed ERROR...",
		[]string{failed(batch(2, " SELECT", "BATCH SELECT | query.summary=BATCH SELECT | query.text=SELECT n FROM loads; SELECT ? / n FROM generate_series(?, ?) n"), "22012")}},
	{"do conn batch SELECT n FROM missing; SELECT n FROM missing", "failed ...",
		[]string{failed(batch(2, " SELECT missing", "BATCH SELECT | collection.name=missing | query.summary=BATCH SELECT missing | query.text=SELECT n FROM missing"), "42P01")}},

	// Copies.
	{"do conn copy numbers 1", "ok", []string{copied("numbers")}},
	{"do conn copy public.numbers 1", "failed ERROR: duplicate...", []string{failed(copied("public.numbers"), "23505")}},
	{"do conn copy missing 1", "failed ...", []string{failed(copied("missing"), "42P01")}},

	// Transactions.
	{"do conn begin", "ok", []string{begin}},
	{"do tx exec DELETE FROM numbers", "ok", []string{statement("DELETE", "numbers", "DELETE FROM numbers")}},
	{"do tx begin", "ok", []string{"savepoint | operation.name=savepoint | query.summary=savepoint | query.text=savepoint sp_1"}},
	{"do nested rollback", "ok", []string{"rollback | operation.name=rollback | query.summary=rollback | query.text=rollback to savepoint sp_1"}},
	{"do tx commit", "ok", []string{simple("commit", "commit")}},
	{"do tx commit", "failed tx is closed", nil},
	{"do pool begin", "ok", []string{begin}},
	{"do ptx query SELECT a FROM numbers", "ok", []string{statement("SELECT", "numbers", "SELECT a FROM numbers")}},
	{"do ptx rollback", "ok", []string{simple("rollback", "rollback")}},
	{"do ptx rollback", "failed tx is closed", nil},

	// Pools.
	{"do pool exec DELETE FROM numbers", "ok", []string{statement("DELETE", "numbers", "DELETE FROM numbers")}},
	{"do pool exec DELETE FROM missing", "failed ERROR...", []string{failed(statement("DELETE", "missing", "DELETE FROM missing"), "42P01")}},
	{"do pool query SELECT a FROM numbers", "ok", []string{statement("SELECT", "numbers", "SELECT a FROM numbers")}},
	{"do pool query SELECT a FROM missing", "failed ERROR...", []string{failed(statement("SELECT", "missing", "SELECT a FROM missing"), "42P01")}},
	{"do pool row SELECT count(*) FROM numbers", "ok", []string{statement("SELECT", "numbers", "SELECT count(*) FROM numbers")}},
	{"do pool copy numbers 2", "ok", []string{copied("numbers")}},
	{"do pool batch DELETE FROM loads; DELETE FROM loads", "ok",
		[]string{batch(2, " DELETE loads", "BATCH DELETE | collection.name=loads | query.summary=BATCH DELETE loads | query.text=DELETE FROM loads")}},

	// Rows that are closed later, on another goroutine.
	{"do conn hold SELECT a FROM numbers", "ok", nil},
	{"do pool exec DELETE FROM loads", "ok", []string{statement("DELETE", "loads", "DELETE FROM loads")}},
	{"do conn exec DELETE FROM numbers", "failed conn busy", []string{failedBy(statement("DELETE", "numbers", "DELETE FROM numbers"), "*pgconn.connLockError")}},
	{"release", "ok", []string{statement("SELECT", "numbers", "SELECT a FROM numbers")}},

	// Contexts that end.
	{"timeout 0", "ok", nil},
	{"do conn exec DELETE FROM numbers", "failed ...", []string{failedBy(statement("DELETE", "numbers", "DELETE FROM numbers"), "*pgconn.errTimeout")}},
	{"timeout 0", "ok", nil},
	{"do conn query SELECT a FROM numbers WHERE a = $1", "failed ...", []string{failedBy(statement("SELECT", "numbers", "SELECT a FROM numbers WHERE a = $1"), "*pgconn.errTimeout")}},
	{"broken exec DELETE FROM numbers", "failed ...", []string{simple("SELECT", "SELECT pg_terminate_backend(?, ?)"), failed(statement("DELETE", "numbers", "DELETE FROM numbers"), "57P01")}},

	// A panic: nothing reports the end.
	{"do conn panic DELETE FROM numbers WHERE b = $1", "failed trouble", nil},
	{"do conn exec DELETE FROM loads", "ok", []string{statement("DELETE", "numbers", "DELETE FROM numbers WHERE b = $1") + " | ending 2", statement("DELETE", "loads", "DELETE FROM loads")}},

	// Package database/sql.
	{"do sql exec DELETE FROM numbers WHERE a = $1", "ok", []string{standard(statement("DELETE", "numbers", "DELETE FROM numbers WHERE a = $1"))}},
	{"do sql query SELECT a FROM numbers", "ok", []string{standard(statement("SELECT", "numbers", "SELECT a FROM numbers"))}},
	{"do sql exec DELETE FROM missing", "failed ERROR...", []string{standard(failedBy(statement("DELETE", "missing", "DELETE FROM missing"), "*pgconn.PgError"))}},
	{"do sql begin", "ok", []string{standard("BEGIN | operation.name=BEGIN")}},
	{"do sqltx exec INSERT INTO numbers VALUES ($1)", "ok", []string{standard(statement("INSERT", "numbers", "INSERT INTO numbers VALUES ($1)"))}},
	{"do sql commit", "ok", []string{standard("COMMIT | operation.name=COMMIT")}},
	{"do sql ping", "ok", []string{standard("PING | operation.name=PING")}},
	{"do pq exec DELETE FROM numbers WHERE a = $1", "ok", []string{standard(statement("DELETE", "numbers", "DELETE FROM numbers WHERE a = $1"))}},
	{"do pq query SELECT a FROM numbers", "ok", []string{standard(statement("SELECT", "numbers", "SELECT a FROM numbers"))}},
	{"do pq exec DELETE FROM missing", "failed pq...", []string{standard(failedBy(statement("DELETE", "missing", "DELETE FROM missing"), "*pq.Error"))}},
}

func prepare(summary, text string) string {
	return "PREPARE " + summary + " | operation.name=PREPARE | collection.name=" + strings.Fields(summary)[1] + " | query.summary=PREPARE " + summary + " | query.text=" + text
}

func copied(table string) string {
	return "COPY " + table + " | operation.name=COPY | collection.name=" + table + " | query.summary=COPY " + table
}

// TestSpans compares the spans of operations with what the program did.
func TestSpans(t *testing.T) {
	each(t, specs(t), loupe.SpanOptions{}, func(t *testing.T, c *clerk) {
		var want []string
		for _, s := range steps {
			if !c.has(s.command) {
				continue
			}
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
		compare(t, got, want)
	})
}
