// Narrator serves HTTP and makes spans by the API of OpenTelemetry, without an SDK. It is built with each version of
// go.opentelemetry.io/otel that a file such as otel-1.47.mod names.
//
// It adds the command `address`, which answers with the address of its server: `address PLAIN`, and `sdk`, which installs an SDK if the
// program is built with the tag sdk. The server serves the paths
//
//	/values         makes a span with attributes of each type
//	/many?n=N       makes a span with N attributes
//	/kinds          makes a span of each kind
//	/nested         makes spans in spans, by contexts
//	/overlap        makes two spans of which the first one ends first
//	/events         makes a span with events
//	/status?code=N  makes a span with the status N, and then one with Ok, Error and Unset
//	/name           makes a span and changes its name
//	/times          makes a span that began and ended at other times
//	/root           makes a span in another one that is the root of a trace
//	/elsewhere      makes a span that ends on another goroutine, and one on that goroutine
//	/pooled         makes a span in which other goroutines, which exist already, make one, send a request for /name, and do both without it
//	/context        adds attributes to the span in the context
//	/never          makes a span that does not end
//	/panic          panics in a span that a deferred call ends
//	/client         makes a span in which it sends a request for /name
//	/tree?n=N       makes three spans in each other that have the number N
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

var (
	tracer = otel.Tracer("loupe.test/narrator", trace.WithInstrumentationVersion("v1.2.3"))
	server *httptest.Server
)

func main() {
	mux := http.NewServeMux()
	for path, f := range map[string]func(context.Context, *http.Request){
		"/values": values, "/many": many, "/kinds": kinds, "/nested": nested, "/overlap": overlap, "/events": events, "/status": status, "/name": name,
		"/times": times, "/root": root, "/elsewhere": other, "/pooled": pooled, "/context": inContext, "/never": never, "/panic": panics, "/client": client, "/tree": tree,
	} {
		f := f
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { f(r.Context(), r) })
	}
	server = httptest.NewServer(mux)
	serve(false, map[string]command{
		"address": func([]string) string { return "address " + server.Listener.Addr().String() },
		"sdk":     func([]string) string { return install() },
	})
}

// number returns a number of the query.
func number(r *http.Request, name string) int {
	n, _ := strconv.Atoi(r.URL.Query().Get(name))
	return n
}

func values(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "values", trace.WithAttributes(attribute.String("first", "yes"), attribute.Bool("bool", true)))
	span.SetAttributes(attribute.Int("int", -7), attribute.Float64("float", 2.5), attribute.String("first", "no"), attribute.String("empty", ""))
	span.SetAttributes(attribute.StringSlice("strings", []string{"a", "b", "c"}), attribute.IntSlice("ints", []int{1, -2, 3}),
		attribute.Float64Slice("floats", []float64{0.5}), attribute.BoolSlice("bools", []bool{true, false}), attribute.StringSlice("none", nil),
		attribute.String("hostile", "\xff\x1b"), attribute.String("", "without a key"))
	span.End()
}

func many(ctx context.Context, r *http.Request) {
	var list []attribute.KeyValue
	for i := 0; i < number(r, "n"); i++ {
		list = append(list, attribute.Int(fmt.Sprint("key-", i), i))
	}
	_, span := tracer.Start(ctx, "many")
	span.SetAttributes(list...)
	span.End()
}

func kinds(ctx context.Context, _ *http.Request) {
	for kind := trace.SpanKindInternal; kind <= trace.SpanKindConsumer; kind++ {
		_, span := tracer.Start(ctx, "kind "+kind.String(), trace.WithSpanKind(kind))
		span.End()
	}
	_, span := tracer.Start(ctx, "constant kind", trace.WithAttributes(attribute.Int("n", 1)), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.Int("m", 2)))
	span.End()
}

func nested(ctx context.Context, _ *http.Request) {
	outer, a := tracer.Start(ctx, "a")
	middle, cancel := context.WithCancel(context.WithValue(outer, server, 1))
	defer cancel()
	inner, b := otel.Tracer("loupe.test/other").Start(middle, "b in a")
	_, c := tracer.Start(inner, "c in b")
	c.End()
	b.End()
	_, d := tracer.Start(outer, "d in a")
	_, e := tracer.Start(ctx, "e in server")
	e.End()
	d.End()
	a.End()
}

func overlap(ctx context.Context, _ *http.Request) {
	_, a := tracer.Start(ctx, "first in server")
	_, b := tracer.Start(ctx, "second in server")
	a.End()
	b.SetAttributes(attribute.Int("n", 2))
	b.End()
	b.End()
}

type failure struct{ code int }

func (f *failure) Error() string { return fmt.Sprint("code ", f.code) }

func events(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "events")
	span.AddEvent("plain")
	span.AddEvent("full", trace.WithAttributes(attribute.String("key", "value"), attribute.Int("n", 3)), trace.WithTimestamp(time.Unix(1000, 5)))
	span.RecordError(nil)
	span.RecordError(errors.New("the first"))
	span.RecordError(fmt.Errorf("the second: %w", errors.New("inner")), trace.WithAttributes(attribute.Bool("wrapped", true)))
	span.RecordError(&failure{7})
	span.End()
}

func status(ctx context.Context, r *http.Request) {
	_, span := tracer.Start(ctx, "status")
	span.SetStatus(codes.Code(number(r, "code")), "a message")
	span.End()
	_, span = tracer.Start(ctx, "final")
	span.SetStatus(codes.Error, "an error")
	span.SetStatus(codes.Ok, "ignored")
	span.SetStatus(codes.Error, "ignored")
	span.SetStatus(codes.Unset, "ignored")
	span.End()
}

func name(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "old name")
	span.SetName("new name")
	span.End()
}

func times(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "times", trace.WithTimestamp(time.Unix(2000000000, 1)))
	span.End(trace.WithTimestamp(time.Unix(2000000003, 2)))
	_, span = tracer.Start(ctx, "measured", trace.WithTimestamp(time.Now().Add(-time.Hour)))
	span.End(trace.WithTimestamp(time.Now().Add(time.Hour)))
}

func root(ctx context.Context, _ *http.Request) {
	ctx, span := tracer.Start(ctx, "outer")
	ctx, other := tracer.Start(ctx, "root", trace.WithNewRoot())
	_, in := tracer.Start(ctx, "in root")
	in.End()
	other.End()
	span.End()
}

func other(ctx context.Context, _ *http.Request) {
	outer, span := tracer.Start(ctx, "ends elsewhere")
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, in := tracer.Start(outer, "on goroutine")
		in.End()
		_, own := tracer.Start(context.Background(), "without context")
		own.End()
		span.SetAttributes(attribute.Bool("elsewhere", true))
		span.End()
	}()
	<-done
}

func inContext(ctx context.Context, _ *http.Request) {
	ctx, span := tracer.Start(ctx, "context")
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("n", 1))
	span.SetAttributes(attribute.Int("m", 2))
	trace.SpanFromContext(ctx).End()
	trace.SpanFromContext(context.Background()).SetAttributes(attribute.Int("n", 3))
}

func never(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "never ends")
	span.SetAttributes(attribute.Int("n", 1))
}

func panics(ctx context.Context, _ *http.Request) {
	_, span := tracer.Start(ctx, "panics")
	defer span.End()
	panic(http.ErrAbortHandler)
}

func client(ctx context.Context, _ *http.Request) {
	ctx, span := tracer.Start(ctx, "client")
	defer span.End()
	send(ctx)
}

// others call functions in goroutines that exist already.
var others = elsewhere(2)

func pooled(request context.Context, _ *http.Request) {
	ctx, span := tracer.Start(request, "pooled")
	defer span.End()
	others(func() {
		_, other := tracer.Start(ctx, "inner")
		defer other.End()
		send(ctx)
	})
	others(func() {
		_, other := tracer.Start(request, "beside")
		defer other.End()
		send(request)
	})
}

func send(ctx context.Context) {
	req, err := http.NewRequest("GET", server.URL+"/name", nil)
	if err != nil {
		panic(err)
	}
	resp, err := http.DefaultClient.Do(req.WithContext(ctx))
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

func tree(ctx context.Context, r *http.Request) {
	n := attribute.Int("n", number(r, "n"))
	for i := 0; i < 3; i++ {
		var span trace.Span
		ctx, span = tracer.Start(ctx, fmt.Sprint("level ", i), trace.WithAttributes(n))
		defer span.End()
		time.Sleep(100 * time.Microsecond)
	}
}
