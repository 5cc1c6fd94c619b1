package pgx_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/spans"
)

// TestPool gets no connection of a pool. The wait for one is part of an operation.
func TestPool(t *testing.T) {
	each(t, last(specs(t)), loupe.SpanOptions{}, func(t *testing.T, c *clerk) {
		c.do("refused", "failed")
		c.do("exhaust", "failed context deadline exceeded")
		c.do("do pool exec DELETE FROM loads", "ok")
		all := c.end()
		if len(all) != 3 {
			t.Fatalf("%d spans, want 3", len(all))
		}
		noServer, noTime := "onnectError | failed", " | error.type=context.deadlineExceededError | failed"
		if !c.has("acquire") {
			noServer, noTime = " | ending 2", " | ending 2"
		}
		refused := c.text(all[0])
		for _, text := range []string{"DELETE nothing", "server.port=1 ", "namespace=nothing ", "query.text=DELETE FROM nothing", noServer} {
			if !strings.Contains(refused+" ", text) {
				t.Errorf("%s: want %s", refused, text)
			}
		}
		if want := statement("SELECT", "numbers", "SELECT a FROM numbers") + noTime; c.text(all[1]) != want || all[1].End-all[1].Start < 20e6 {
			t.Errorf("%+v, want %s", all[1], want)
		}
		if want := statement("DELETE", "loads", "DELETE FROM loads"); c.text(all[2]) != want {
			t.Errorf("%s, want %s", c.text(all[2]), want)
		}
	})
}

// TestInside performs operations in requests of HTTP.
func TestInside(t *testing.T) {
	each(t, last(specs(t)), loupe.SpanOptions{NoQueryText: true}, func(t *testing.T, c *clerk) {
		commands := []string{"conn exec DELETE FROM numbers", "pool query SELECT a FROM numbers", "pool copy numbers 3", "conn row SELECT count(*) FROM numbers",
			"sql exec DELETE FROM numbers", "pool begin", "ptx exec DELETE FROM loads", "ptx commit", "pool exec DELETE FROM missing"}
		if c.has("batch") {
			commands = append(commands, "pool batch SELECT n FROM loads; SELECT n FROM loads")
		}
		for _, command := range commands {
			if answer := c.Command("inside " + command); answer != "ok" && !strings.Contains(command, "missing") {
				t.Errorf("%s: %s", command, answer)
			}
		}
		all := c.end()
		var servers []*spans.Span
		for _, s := range c.all {
			if s.Kind == trace.SpanKindServer {
				servers = append(servers, s)
			}
		}
		if len(all) != len(commands) || len(servers) != len(commands) {
			t.Fatalf("%d operations in %d requests, want %d", len(all), len(servers), len(commands))
		}
		for i, s := range all {
			within(t, s, servers[i], spans.RuleGoroutine)
			if text := c.text(s); strings.Contains(text, "query.text") {
				t.Errorf("the text is reported: %s", text)
			}
		}
	})
}

// within checks that a span is in a request.
func within(t *testing.T, s, request *spans.Span, rule spans.Rule) {
	t.Helper()
	if s.Parent.SpanID() != request.Context.SpanID() || s.Context.TraceID() != request.Context.TraceID() || s.Rule != rule ||
		s.Start < request.Start || s.End > request.End {
		t.Errorf("%+v is not in %+v", s, request)
	}
}

// TestLoad compares the operations of many requests at once with the log of the server. Other goroutines do the work of half of the
// requests, which its contexts name.
func TestLoad(t *testing.T) {
	each(t, last(specs(t)), loupe.SpanOptions{}, func(t *testing.T, c *clerk) {
		if !c.has("batch") {
			return
		}
		const goroutines, rounds = 50, 4
		before := len(c.server.Statements(c.name))
		c.do(fmt.Sprintf("load %d %d", goroutines, rounds), "load")
		c.do(fmt.Sprintf("pooled %d %d", goroutines, rounds), "load")
		logged := map[string]int{}
		for _, text := range c.server.Statements(c.name)[before:] {
			if text != "-- ping" { // of a connection that was idle
				logged[text]++
			}
		}
		requests, reported := map[trace.SpanID]*spans.Span{}, map[string]int{}
		children := map[trace.SpanID][]string{}
		for _, s := range c.end() {
			children[s.Parent.SpanID()] = append(children[s.Parent.SpanID()], c.text(s))
			for _, text := range texts(s) {
				reported[text]++
			}
		}
		for _, s := range c.all {
			if s.Kind == trace.SpanKindServer {
				requests[s.Context.SpanID()] = s
			}
		}
		want := []string{statement("UPDATE", "loads", "UPDATE loads SET n = n WHERE n = $1"), statement("SELECT", "loads", "SELECT n FROM loads"), begin,
			batch(3, "", "BATCH | collection.name=loads | query.summary=BATCH | query.text=INSERT INTO loads VALUES ($1); DELETE FROM loads WHERE n = ?"), simple("commit", "commit")}
		if n := 2 * goroutines * rounds; len(requests) != n || len(children) != n {
			t.Errorf("%d requests, %d of them with operations, want %d", len(requests), len(children), n)
		}
		for id, got := range children {
			if !slices.Equal(got, want) || requests[id] == nil {
				t.Fatalf("a request has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		for _, s := range c.all {
			if request := requests[s.Parent.SpanID()]; s.Kind == trace.SpanKindClient && request != nil {
				rule := spans.RuleGoroutine
				if slices.Contains(request.Attributes, semconv.URLPath("/pooled")) {
					rule = spans.RuleContext
				}
				within(t, s, request, rule)
			}
		}
		if !maps.Equal(reported, logged) {
			t.Errorf("%v, the server has logged %v", reported, logged)
		}
	})
}

// texts returns the statements that the server logs for a span of load.
func texts(s *spans.Span) []string {
	for _, a := range s.Attributes {
		switch text := a.Value.AsString(); {
		case a.Key != "db.query.text":
		case strings.HasPrefix(s.Name, "BATCH"):
			insert, remove, _ := strings.Cut(strings.ReplaceAll(text, "?", "1"), "; ")
			return []string{insert, insert, remove}
		default:
			return []string{text}
		}
	}
	return nil
}
