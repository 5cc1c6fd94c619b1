package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/internal/spans/routes"
	"github.com/loupe-go/loupe/internal/spans/tree"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/spans"
)

// spanFlags are the flags of loupe spans.
type spanFlags struct {
	live     liveFlags
	slower   time.Duration
	interval time.Duration
	top      int
	noWork   bool
	funcs    []string
	allocs   bool
	otlp     string
	service  string
	profiler string // the path of a map; empty: none

	propagate *bool // nil: with engine inline, or if spans are exported
}

// Limits of what loupe spans keeps.
const (
	maxRoutes       = 1000 // operations in the table
	maxWaiting      = 4096 // requests whose spans are kept until they end
	maxSpansOfTrees = 256  // spans of one request
)

// spanInterval is the time between two tables on a terminal.
const spanInterval = 2 * time.Second

func (a *app) spansCommand() *cobra.Command {
	var flags spanFlags
	cmd := &cobra.Command{
		Use:                   "spans [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Trace the requests of a running program, and what they waited for",
		Long: `Trace the requests that a running Go program serves and sends, without a change
to the program. Each request is an OpenTelemetry span. Requests that are sent
while another one is served belong to it, also if another goroutine sends them.

The table lists the operations with their rate, errors and durations, and how
the goroutine of a request spent its time: running, runnable (waiting for a
processor), or waiting for a channel, a lock, the network and so on.
--slower-than also prints slow requests one by one, with the spans in them.

--allocs counts the bytes and objects that each request allocates, also in
goroutines that it starts. It prefers engine inline, because engine uprobe takes
1 µs or more for each allocation of the program, unless engine inline cannot
observe a function that --func selects.

With --otlp, or if OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER is set,
the spans are also exported, and the durations as metrics. The OTEL_* variables
of the OpenTelemetry specification apply, for example OTEL_TRACES_SAMPLER,
OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_PROTOCOL (grpc or
http/protobuf).

With --engine inline, requests that the program sends by HTTP and gRPC and
messages that it sends by Kafka get a traceparent header, so that the spans of
several services make one trace. Requests that have the header already are not
changed. A tracestate and a baggage header of a request or a message are
carried on.
--propagate=false or OTEL_PROPAGATORS=none prevents it.

If the program makes spans of its requests itself, by the OpenTelemetry SDK,
these are continued: the spans that only loupe knows are in the same traces,
and those that the program exports are marked with [own], and not exported.

--profiler-map tells eBPF profilers, for example OpenTelemetry's, which span
each thread works for. It fills the BPF map at
` + loupe.DefaultProfilerMap + `, or at another path: --profiler-map=PATH.
It requires engine uprobe.

Supported libraries, with Go 1.19 and later: net/http with the routes of
http.ServeMux, gorilla/mux, chi, gin and echo; google.golang.org/grpc;
database/sql; github.com/jackc/pgx/v5; github.com/redis/go-redis (v8 and v9);
go.mongodb.org/mongo-driver (v1.16 and later, v2); the Kafka clients
segmentio/kafka-go, twmb/franz-go and IBM/sarama; and the spans that a program
makes by the OpenTelemetry API without an SDK.

--func adds spans of calls of the program's own functions, by their full names
as in stack traces. * matches any text, except after an opening parenthesis:
'main.(*Store).*' are the methods of *main.Store. If the executable has debug
information, the spans have the parameters and the results of the calls: do not
select functions whose parameters are secret. A call costs the target about
15 µs with engine uprobe, and less than 1 µs with engine inline.

` + liveTargetHelp,
		Example: `  loupe spans 1234
  loupe spans orders --slower-than 100ms
  loupe spans orders --func 'main.(*Store).*' --func main.checkout
  loupe spans orders --json | jq 'select(.kind == "server") | .attributes'
  loupe spans -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	addEngine(&flags.live.engine, cmd, "")
	flags.live.buffer = loupe.DefaultSpanBufferBytes
	flags.live.add(cmd, 0)
	f := cmd.Flags()
	f.DurationVar(&flags.slower, "slower-than", 0, "also print each request that takes at least this time, with its spans; 0 prints none")
	f.DurationVar(&flags.interval, "interval", 0, "also print the table at this interval; on a terminal the default is 2s")
	f.IntVar(&flags.top, "top", 20, "print at most `N` operations; 0 prints all")
	f.StringVar(&flags.otlp, "otlp", "", "export spans and metrics by OTLP to this `ENDPOINT`, such as http://localhost:4318")
	f.StringVar(&flags.service, "service", "", "`NAME` of the service in exported spans; by default that of the executable")
	f.StringArrayVar(&flags.funcs, "func", nil, "also trace the calls of functions that match `PATTERN`; can be repeated")
	f.BoolVar(&flags.noWork, "no-breakdown", false, "do not observe how requests spend their time, which is cheaper")
	f.BoolVar(&flags.allocs, "allocs", false, "also count what requests allocate, which each allocation of the program costs time")
	f.StringVar(&flags.profiler, "profiler-map", "", "fill the BPF map at `PATH` by which eBPF profilers join samples and spans (engine uprobe)")
	f.Lookup("profiler-map").NoOptDefVal = loupe.DefaultProfilerMap
	propagate := f.Bool("propagate", true, "with engine inline, add traceparent headers to the requests that the program sends")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if problem := flags.problem(); problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		if cmd.Flags().Changed("propagate") {
			flags.propagate = propagate
		}
		v := newSpanView(a, &flags, cmd.ArgsLenAtDash() == 0)
		if err := v.exports(cmd); err != nil {
			return err
		}
		opt := flags.live.options(v.a)
		opt.Spans = loupe.SpanOptions{Handle: v.handle, Reuse: flags.slower == 0, NoWork: flags.noWork, Allocs: flags.allocs, Functions: flags.funcs, Propagation: v.propagation(),
			ProfilerMap: flags.profiler}
		if v.controller != nil {
			opt.Spans.Sample = v.sample
		}
		return v.a.observe(cmd, args, opt, flags.live.duration, v.watch)
	}
	return cmd
}

// problem says what is wrong with the flags; empty when nothing is.
func (f *spanFlags) problem() string {
	switch {
	case f.slower < 0:
		return fmt.Sprintf("--slower-than %v is negative; 0 prints no single requests", f.slower)
	case f.interval < 0:
		return fmt.Sprintf("--interval %v is negative", f.interval)
	case f.top < 0:
		return fmt.Sprintf("--top %d is negative; 0 prints all", f.top)
	case f.profiler != "" && f.noWork:
		return "--profiler-map and --no-breakdown exclude each other"
	case f.profiler != "" && f.live.engine.name == string(loupe.EngineInline):
		return "--profiler-map requires engine uprobe: machine code in the target cannot fill a BPF map"
	}
	return f.live.problem()
}

// spanView prints the spans of a session.
type spanView struct {
	a     *app
	flags *spanFlags

	controller *control.Controller // nil: spans are not exported
	process    *control.Process    // set before the first span
	config     *otlp.Config        // of the controller

	mu      sync.Mutex // guards what follows
	elapsed func() time.Duration
	routes  *routes.Table
	trees   *tree.Collector
	out     spanOutput
	timer   *time.Timer // writes text that is spanFlushPeriod old
	line    bytes.Buffer
}

// newSpanView returns the view of a session. started reports whether Loupe starts the program.
func newSpanView(a *app, flags *spanFlags, started bool) *spanView {
	shown := *a
	v := &spanView{a: &shown, flags: flags, routes: routes.NewTable(maxRoutes), trees: tree.NewCollector(maxWaiting, maxSpansOfTrees)}
	v.out.w = a.Stdout
	if !a.json {
		v.out.table = v.table
		// The output of a program that Loupe starts goes to the terminal, between the lines of a table.
		v.out.inPlace = term.IsTerminal(a.Stdout) && a.Getenv("TERM") != "dumb" && !(started && term.IsTerminal(a.Stderr))
	}
	if stderr, ok := a.Stderr.(*output.Stream); ok && v.out.inPlace && term.IsTerminal(stderr) {
		shown.Stderr = spanStderr{stderr, v}
	}
	v.timer = time.AfterFunc(spanFlushPeriod, v.flush)
	v.timer.Stop()
	return v
}

// handle takes a span that has ended.
func (v *spanView) handle(s *spans.Span) {
	if v.process != nil {
		v.process.Handle(s)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line.Reset()
	if v.a.json {
		if err := report.SpanJSON(&v.line, s); err != nil && v.out.err == nil {
			v.out.err = err
		}
		v.out.spans++
		v.print(v.line.Bytes())
		return
	}
	v.routes.Add(s)
	if v.flags.slower == 0 {
		return
	}
	if t := v.trees.Add(s); t != nil && t.Root.End-t.Root.Start >= int64(v.flags.slower) {
		report.Waterfall{Tree: t}.Text(&v.line, v.a.style(), term.Width(v.a.Stdout)) // a buffer returns no error
		v.line.WriteByte('\n')
		v.print(v.line.Bytes())
	}
}

// print writes text soon. The caller holds the lock.
func (v *spanView) print(text []byte) {
	if len(v.out.text) == 0 {
		v.timer.Reset(spanFlushPeriod)
	}
	if v.out.text = append(v.out.text, text...); len(v.out.text) >= spanBufferBytes {
		v.out.flush()
	}
}

// flush writes what is buffered.
func (v *spanView) flush() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.flush()
}

// table writes the table with at most a number of rows, which is that of the terminal; 0 means no limit. The caller holds the lock.
func (v *spanView) table(w io.Writer, columns, rows int) {
	r := report.Routes{Routes: v.routes.Routes(), Elapsed: v.elapsed(), Top: v.flags.top, Rows: rows}
	r.Text(w, v.a.style(), columns) // a buffer returns no error
}

// watch prints until the session ends.
func (v *spanView) watch(ctx context.Context, s session) error {
	elapsed := stopwatch(ctx)
	began := time.Now()
	v.elapsed = func() time.Duration { return time.Since(began) }
	if !v.out.inPlace {
		defer v.a.progress(fmt.Sprintf("tracing the requests of process %d", s.PID())).Stop()
	}
	if err := v.beginExport(ctx, s); err != nil {
		return err
	}
	done := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() { v.tick(done, s) })
	for range s.Events() { // spans arrive with them
		if v.failed() != nil {
			break
		}
	}
	close(done)
	ticking.Wait()
	sum := &report.SpanSummary{Elapsed: elapsed()}
	s.Close() // for the final numbers; an error comes again when the session is ended
	if ctx.Err() == nil && v.failed() == nil {
		v.a.note("process %d has exited", s.PID())
	}
	exportErr := v.endExport(sum)
	if err := v.finish(s, sum); err != nil {
		return err
	}
	return exportErr
}

// failed returns the error of writing.
func (v *spanView) failed() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.out.err
}

// tick prints the table at intervals. If stdout fails, it ends the session.
func (v *spanView) tick(done <-chan struct{}, s session) {
	interval := v.flags.interval
	if interval == 0 && v.out.inPlace {
		interval = spanInterval
	}
	if interval == 0 || v.a.json {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		v.mu.Lock()
		if !v.out.inPlace {
			v.line.Reset()
			v.table(&v.line, term.Width(v.a.Stdout), 0)
			v.line.WriteByte('\n')
			v.print(v.line.Bytes())
		}
		v.out.flush()
		err := v.out.err
		v.mu.Unlock()
		if err != nil {
			s.Detach() // an error comes again when the session is ended
			return
		}
	}
}

// finish prints the end of an observation.
func (v *spanView) finish(s session, sum *report.SpanSummary) error {
	counts, err := s.SpanCounts()
	if err != nil {
		return err
	}
	stats := s.Stats()
	sum.Spans, sum.Lost, sum.Open, sum.Unobserved, sum.Panicked = counts.Ended, counts.Notes.Lost, counts.Open, counts.Unobserved, counts.Panicked
	sum.Own = counts.Own
	sum.Events.Received, sum.Events.Lost = stats.Events, stats.Lost
	v.mu.Lock()
	v.timer.Stop()
	v.elapsed = func() time.Duration { return sum.Elapsed }
	v.out.finish()
	if v.a.json && v.out.err == nil {
		v.out.err = sum.JSON(v.a.Stdout)
	}
	err = v.out.err
	if errors.Is(err, output.ErrBlocked) {
		err = v.blocked(err, counts.Ended)
	}
	v.mu.Unlock() // which the loss on stderr may need
	v.a.tellSpanLoss(&counts, v.controller != nil)
	if n := v.trees.Dropped(); n > 0 {
		fmt.Fprintf(v.a.Stderr, "loupe: %s omitted from single requests: too many requests at once\n", english.Count(n, "span"))
	}
	v.a.tellLoss(stats)
	return err
}

// blocked adds to the error of a blocked stdout what was not written.
func (v *spanView) blocked(err error, ended uint64) error {
	if !v.a.json {
		return fmt.Errorf("%w: the table was not written", err)
	}
	return fmt.Errorf("%w: %s and the summary were not written", err, english.Count(ended-v.out.written, "span"))
}

// tellSpanLoss reports what is missing in the spans. exported is whether they were exported.
func (a *app) tellSpanLoss(c *loupe.SpanCounts, exported bool) {
	say := func(n uint64, format string) {
		if n > 0 {
			fmt.Fprintf(a.Stderr, "loupe: "+format+"\n", english.Count(n, "span"))
		}
	}
	if c.Notes.Lost > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s of begins and ends lost: the buffer was full; increase --buffer\n", english.Count(c.Notes.Lost, "report"))
	}
	say(c.Unobserved, "%s with an unknown end")
	if c.Routes.Lost > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s of routes lost: the buffer was full; increase --buffer\n", english.Count(c.Routes.Lost, "report"))
	}
	if c.Notes.Lost > 0 { // otherwise they began before the observation
		say(c.Strays, "%s not reported: the begin was before the observation, or was lost")
	}
	if c.NoState > 0 {
		fmt.Fprintf(a.Stderr, "loupe: the tracestate or the baggage of %s is not carried on\n", english.Count(c.NoState, "request"))
	}
	if c.NoHeader > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s sent without a traceparent header\n", english.Count(c.NoHeader, "request"))
	}
	if exported {
		say(c.Own, "%s not exported: the program exports them itself")
	}
	say(c.Unsearched, "%s may have a parent or links that are missing: not all headers were searched")
	say(c.Mismatched, "%s not reported: data with an unexpected layout")
	if c.Unlisted > 0 {
		fmt.Fprintf(a.Stderr, "loupe: %s of requests not observed: too many at once\n", english.Count(c.Unlisted, "goroutine"))
	}
}
