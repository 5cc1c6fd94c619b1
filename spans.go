package loupe

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/malloc"
	"github.com/loupe-go/loupe/internal/spans/franz"
	"github.com/loupe-go/loupe/internal/spans/functions"
	"github.com/loupe-go/loupe/internal/spans/functions/unwind"
	"github.com/loupe-go/loupe/internal/spans/grpc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/kafkago"
	"github.com/loupe-go/loupe/internal/spans/mongo"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/otelapi"
	"github.com/loupe-go/loupe/internal/spans/otelsdk"
	"github.com/loupe-go/loupe/internal/spans/pgx"
	"github.com/loupe-go/loupe/internal/spans/redis"
	"github.com/loupe-go/loupe/internal/spans/router"
	"github.com/loupe-go/loupe/internal/spans/sarama"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
	"github.com/loupe-go/loupe/internal/spans/tasks"
	"github.com/loupe-go/loupe/spans"
)

// SpanOptions configures request spans. The zero value makes none.
//
// Operations in secret mode (package runtime/secret) are reported without names, addresses and statements.
//
// Without Tasks, a session with spans observes only goroutines that serve a request, and those that these create, from the begin of the
// request on. The events of Options.Kinds are reported for these goroutines only.
type SpanOptions struct {
	// Handle receives each span when it ends. It is called while [Session.Events] is being iterated, by the same goroutine, and may
	// keep the span unless Reuse is set. If neither Handle nor Tasks is set, no spans are made. A span with Exported set should not be exported: the program
	// does that itself.
	Handle func(*spans.Span)

	// Reuse has the memory of spans used for others when Handle has returned, with that of their attributes and of their work, which takes
	// less time than to allocate it. Handle can keep a copy: see [spans.Span.Clone].
	Reuse bool

	// Tasks adds the spans to the events, as tasks and regions of runtime/trace, so that recordings show them. A task has the name of
	// the span, and messages with its trace ID, its span ID and, at the end, its status and what Allocs counts. While a goroutine is in the span, it is
	// in a region of the same name. [Session.Record] and [FlightRecorder] wait up to a second for the route of a request, which is
	// part of the name; [Session.Events] does not. Options.Kinds must include event.KindsGoroutine or be empty, and is about all
	// goroutines. Tasks excludes Propagation.
	Tasks bool

	// Sample decides whether a new span is sampled, which its context then says. Handle also receives spans that are not. If
	// Sample is nil, spans without a parent are sampled, others if their parent is.
	Sample func(*spans.Span) bool

	// NoQueryText omits the text of statements that the program sends to databases. Otherwise it is an attribute of their spans, at
	// most 1 KB of it. The literals of statements without parameters are replaced by question marks, and so are the values of
	// commands to Redis.
	NoQueryText bool

	// NoQueryParsing omits what is found in the text of SQL statements: their operations and the names of tables. Their spans then have
	// the name of the database system.
	NoQueryParsing bool

	// NoWork omits the breakdown of the time of a request, which costs the target more the more frequently its goroutines wait. Then
	// there are no links by channels (spans.RuleChannel) either, and the Work of spans has no times. It applies if Options.Kinds is not set.
	NoWork bool

	// Functions selects functions of the program whose calls are spans, too: by their full names as in stack traces, such as
	// "main.(*Store).Get" or "main.run.func1". An asterisk matches any text, unless it follows an opening parenthesis: "main.(*Store).*"
	// are the methods of *main.Store, "main.(**).Get" the methods Get of all pointer types. The type arguments of generic functions are
	// "[...]", as in "main.Map[...]". At most 64 functions can be selected. If a pattern matches none that can be observed, the error
	// wraps [ErrSelection]. Warnings name the functions that cannot be observed, and why.
	//
	// If the executable has debug information, the spans have parameters and results as attributes loupe.go.arg.NAME and
	// loupe.go.result.N: bools, integers, addresses of pointers, at most 64 bytes of a string, the types of values in interfaces, and
	// messages of errors. Do not select functions whose parameters are secret.
	//
	// Functions that are called outside of a request are observed, too. Each call costs the target 0.1 to 0.3 µs with engine inline, and
	// with engine uprobe about 15 µs on amd64, where return instructions are expensive. If a function is called more often than spans
	// can be read, SpanCounts.Notes.Lost counts what is lost.
	Functions []string

	// Propagation adds the contexts of spans to the requests that the program sends, as traceparent headers, so that the services that
	// receive them continue the trace. If it is nil, no requests are changed. It requires [EngineInline], because engine uprobe changes
	// nothing in the target: with that engine a warning says that the headers are missing.
	//
	// Supported are requests of net/http by HTTP/1.1 and HTTP/2, RPCs of gRPC, and messages of the clients of Kafka: kafka-go from v0.4.41
	// on, franz-go, and sarama from v1.21.0 on, with the last two those without other headers. A request with a traceparent header of its
	// own is left alone. SpanCounts.NoHeader counts those to which no header could be added.
	//
	// They also carry on the tracestate of the request or the message that they belong to, and its baggage if Baggage is set, except that at
	// most 64 messages of franz-go and sarama that are being sent do at the same time. SpanCounts.NoState counts those that cannot: see there.
	//
	// Headers of messages are in memory that the probes lend to the program. Closing the session waits up to a second for messages that
	// have not been sent. If there are some then, 2 MB of memory stay in the program.
	Propagation *Propagation

	// Allocs counts what a request allocates: spans.Work.Allocated. Each allocation of the program costs some nanoseconds more with
	// [EngineInline], which EngineAuto then prefers if it can observe all of Functions, and 1 µs or more with engine uprobe. With Tasks, the
	// task of a request has a message with what it has allocated. Allocs excludes Options.Allocs.
	Allocs bool

	// ProfilerMap is the path at which a BPF map is pinned that tells eBPF profilers, such as that of OpenTelemetry, which span a thread
	// works for, so that the samples of a profile have the span. [DefaultProfilerMap] is where they expect it. If there is no map yet, it
	// is created, and it stays when the session ends, without the threads of the target. Empty means none.
	//
	// While a thread runs a goroutine that serves a request or a message, or one that was created for that, the map has the trace ID and
	// the span ID of the request, until it ends. The spans of what the program sends are not in the map. If the program makes a span of
	// the request by an SDK of OpenTelemetry, the map has that one, except for RPCs of gRPC before v1.60.0. Only one program should fill
	// the map for a process.
	//
	// It requires [EngineUprobe], which EngineAuto then selects: machine code in the target cannot fill the map. It excludes NoWork, Tasks,
	// Options.MinBlock and Options.Kinds. Each request costs the target about 2 µs more.
	ProfilerMap string

	// Syscalls includes the time in system calls and in C code in the breakdown with engine uprobe. Otherwise this time counts as
	// running. It costs the target about 6 µs for each system call of a request, and less for others. [EngineInline] always
	// includes it, for about 1 µs. Syscalls applies if neither NoWork nor Options.Kinds is set.
	Syscalls bool
}

// DefaultProfilerMap is where the OpenTelemetry eBPF profiler and other tools expect the map of SpanOptions.ProfilerMap.
const DefaultProfilerMap = "/sys/fs/bpf/otel/traces_ctx_v1"

// Propagation is how the spans whose contexts are in headers are sampled: those of requests that the program serves and of requests that
// it sends by a library for which propagation is supported. The probes decide that, and SpanOptions.Sample is not called for these
// spans. The zero value samples all.
type Propagation struct {
	// Omit is the part of new traces that is not sampled, from 0 to 1. As with the sampler traceidratio of OpenTelemetry, the trace ID
	// determines which.
	Omit float64

	// Baggage has requests and messages that are sent while the program serves a request or processes a message carry on its baggage, too.
	Baggage bool

	// IgnoreParent samples a span with a parent like one without: by the trace ID. Otherwise it is sampled if its parent is.
	IgnoreParent bool
}

// probes returns the settings of the probes.
func (p *Propagation) probes() *probe.Propagate {
	return &probe.Propagate{Baggage: p.Baggage, Bound: uint64((1 - p.Omit) * (1 << 63)), Parent: !p.IgnoreParent}
}

// workKinds are the kinds of events that a breakdown requires, bareKinds those that are required without it.
var (
	workKinds = event.KindsOf(event.GoCreate, event.GoDestroy, event.GoStart, event.GoStop, event.GoBlock, event.GoUnblock)
	bareKinds = event.KindsOf(event.GoCreate, event.GoDestroy)
)

// kinds returns the kinds of events that the breakdown requires.
func (o SpanOptions) kinds(engine probe.Engine) event.Kinds {
	if o.NoWork {
		return bareKinds
	}
	if _, cheap := engine.(*inline.Engine); cheap || o.Syscalls {
		return workKinds.Union(event.KindsSyscall)
	}
	return workKinds
}

// withSpanKinds returns the options with the kinds that request spans require, unless others are set, and with the buffer for these.
func (o Options) withSpanKinds(engine probe.Engine) Options {
	switch {
	case !o.Kinds.IsEmpty() || !o.Spans.made():
	case o.Spans.Tasks:
		o.Kinds = event.KindsDefault
	default:
		o.Kinds = o.Spans.kinds(engine)
		o.BufferBytes = cmp.Or(o.BufferBytes, DefaultSpanBufferBytes)
	}
	return o
}

// made reports whether spans are made.
func (o SpanOptions) made() bool { return o.Handle != nil || o.Tasks }

// problem says what is wrong with the options, given the kinds of events that are observed; it is nil if nothing is.
func (o SpanOptions) problem(kinds event.Kinds) error {
	switch {
	case o.Propagation != nil && !(o.Propagation.Omit >= 0 && o.Propagation.Omit <= 1):
		return fmt.Errorf("Spans.Propagation.Omit is %v: must be between 0 and 1", o.Propagation.Omit)
	case o.Tasks && o.Propagation != nil:
		return errors.New("Spans.Tasks and Spans.Propagation exclude each other")
	case o.ProfilerMap != "" && (o.Tasks || o.NoWork || !kinds.IsEmpty()):
		return errors.New("Spans.ProfilerMap excludes Spans.Tasks, Spans.NoWork and Kinds")
	case o.Tasks && !kinds.IsEmpty() && !kinds.Contains(event.KindsGoroutine):
		return fmt.Errorf("Spans.Tasks requires Kinds with %v", event.KindsGoroutine.Without(kinds))
	}
	return nil
}

// spanSets are the sets of probes that report requests.
type spanSets struct {
	tracker *join.Tracker
	tasks   *tasks.Recorder // nil without SpanOptions.Tasks
	allocs  *malloc.Set     // nil without SpanOptions.Allocs
	probes  []*probe.Set
	session *probe.Session
	binary  *gobin.Binary
	silent  bool // contexts are to be propagated, but the engine cannot

	warnings []event.Warning // about the selected functions
}

// newSpanSets returns the sets for a process. kinds are the kinds of events that are observed.
func newSpanSets(o SpanOptions, p *goproc.Process, engine probe.Engine, kinds event.Kinds) (*spanSets, error) {
	s := &spanSets{binary: p.Binary()}
	_, native := engine.(*inline.Engine)
	unwinds := !native && !o.Tasks && !nethttp.PatternLost(p) // tasks have the route in their names before the request ends
	opt := join.Options{PID: int32(p.PID()), Handle: o.Handle, Reuse: o.Reuse, Sample: o.Sample, Kinds: kinds,
		Release: func(g uint64) { s.session.Unlist(g) }, Disown: func(g uint64) { s.session.Disown(g) }, InGap: func() bool { return s.session.InGap() },
		Unbuffered: p.Unbuffered, Identified: o.ProfilerMap != "",
		Alive: func() ([]uint64, int64, error) {
			alive, err := p.Alive()
			return alive, time.Now().UnixNano(), err
		}}
	if o.Tasks {
		s.tasks = tasks.NewRecorder(opt.PID)
		opt.Begun, opt.Left, opt.Dropped, opt.Release = s.tasks.Begin, s.tasks.Leave, s.tasks.End, nil // there is no filter
		opt.Handle = func(ended *spans.Span) {
			s.tasks.End(ended)
			if o.Handle != nil {
				o.Handle(ended)
			}
		}
	}
	s.tracker = join.NewTracker(opt)
	if o.Allocs {
		s.allocs = malloc.New(malloc.Options{By: malloc.ByRequest})
	}
	s.probes = []*probe.Set{
		nethttp.New(s.tracker, p.TypeName, nethttp.Options{Unwinds: unwinds}),
		router.New(s.tracker, router.Options{HasPattern: unwinds}),
		grpc.New(s.tracker, p.TypeName),
		sqldb.New(s.tracker, p.TypeName, sqldb.Options{NoText: o.NoQueryText, NoParsing: o.NoQueryParsing}),
		redis.New(redis.V8, s.tracker, p.TypeName, redis.Options{NoText: o.NoQueryText}),
		redis.New(redis.V9, s.tracker, p.TypeName, redis.Options{NoText: o.NoQueryText}),
		pgx.New(s.tracker, pgx.Options{TypeName: p.TypeName, Constant: p.Constant, NoText: o.NoQueryText, NoParsing: o.NoQueryParsing}),
		kafkago.New(s.tracker, p.TypeName),
		franz.New(s.tracker, p.TypeName),
		sarama.New(s.tracker, p.TypeName, sarama.IBM), sarama.New(s.tracker, p.TypeName, sarama.Shopify),
	}
	s.probes = append(s.probes, nethttp.NewModule(s.tracker, p.TypeName, p.Binary())...)
	s.probes = append(s.probes, mongo.New(s.tracker, p.TypeName)...)
	var own *probe.Set
	own = otelapi.New(s.tracker, p, func() bool { return s.session.Attached(own, otelapi.End) })
	s.probes = append(s.probes, own, otelsdk.New(s.tracker, p))
	if len(o.Functions) > 0 {
		list, warnings, err := functions.Find(p.Binary(), o.Functions)
		if err != nil {
			return nil, fmt.Errorf("process %d: %w", p.PID(), err)
		}
		s.warnings = warnings
		s.probes = append(s.probes, functions.Sets(list, s.tracker, p)...)
	}
	if s.tasks != nil {
		for _, set := range s.probes {
			s.follow(set)
		}
	}
	return s, nil
}

// ErrSelection reports that [SpanOptions.Functions] selects no function that can be observed, or too many.
var ErrSelection = functions.ErrSelection

// follow makes the tasks know the place of each note of a set.
func (s *spanSets) follow(set *probe.Set) {
	decode := set.Decode
	set.Decode = func(n *probe.Note) {
		s.tasks.Note(n.G, n.TID, n.Time)
		decode(n)
		s.tasks.Noted()
	}
}

// attached reports whether any request is reported.
func (s *spanSets) attached(session *probe.Session) bool {
	for _, set := range s.probes {
		if set.Name == unwind.Name { // it reports nothing by itself
			continue
		}
		for _, d := range set.Probes {
			if session.Attached(set, d.Program) {
				return true
			}
		}
	}
	return false
}

// events returns an iterator that passes events to the tracker before they are yielded.
func (s *spanSets) events(events iter.Seq[*event.Event]) iter.Seq[*event.Event] {
	if s.tasks != nil {
		return s.withTasks(events)
	}
	return func(yield func(*event.Event) bool) {
		defer s.tracker.Close()
		for e := range events {
			if s.tracker.Event(e) && !yield(e) {
				return
			}
		}
	}
}

// withTasks does the same, and adds the events of tasks.
func (s *spanSets) withTasks(events iter.Seq[*event.Event]) iter.Seq[*event.Event] {
	return func(yield func(*event.Event) bool) {
		over := false
		all := func(list []event.Event) bool {
			for i := range list {
				over = over || !yield(&list[i])
			}
			return !over
		}
		for e := range events {
			s.tasks.Before(e)
			s.tracker.Event(e)
			if !all(s.tasks.Ready(e)) || !yield(e) || !all(s.tasks.After(e)) {
				over = true
				break
			}
		}
		s.tracker.Close()
		all(s.tasks.Rest())
	}
}

// count adds the events of tasks to the counts of events.
func (s *spanSets) count(stats *event.Stats) {
	if s.tasks == nil {
		return
	}
	for kind, n := range s.tasks.Counts() {
		stats.Kinds[kind] = event.Counts{Produced: n, Received: n}
		stats.Events += n
	}
}

// names returns what holds events back until the names of tasks are known, or nil if there are no tasks. It must be called before
// the events are iterated.
func (s *Session) names() *tasks.Names {
	if s.spans == nil || s.spans.tasks == nil {
		return nil
	}
	return s.spans.tasks.Names()
}

// SpanFunctions returns the functions of the program that have probes for spans, sorted by name. It returns nil if the session makes
// no spans.
func (s *Session) SpanFunctions() []string {
	if s.spans == nil {
		return nil
	}
	var names []string
	for _, set := range s.spans.probes {
		if set.Name == unwind.Name {
			continue
		}
		names = append(names, s.probes.Functions(set)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// SpanCounts are the numbers of spans of a session so far.
type SpanCounts struct {
	join.Counts
	Unlisted uint64          // goroutines of requests that were not observed because there were too many at once
	Notes    probe.SetCounts // of all libraries: reports of begins and ends that were produced, received and lost, and problems of their texts
	Routes   probe.SetCounts // the same of reports of routes
}

// errNoSpans reports a session that makes no spans.
var errNoSpans = errors.New("the session makes no spans: set Options.Spans.Handle or Options.Spans.Tasks")

// SpanCounts returns the numbers of spans so far. It may be called at any time and from any goroutine.
func (s *Session) SpanCounts() (SpanCounts, error) {
	if s.spans == nil {
		return SpanCounts{}, errNoSpans
	}
	c := SpanCounts{Counts: s.spans.tracker.Counts(), Unlisted: s.probes.Unlisted()}
	c.NoHeader += s.probes.ContextsFull()
	var libraries, routers []*probe.Set
	for _, set := range s.spans.probes {
		if set.Name == router.Library {
			routers = append(routers, set)
		} else {
			libraries = append(libraries, set)
		}
	}
	var err error
	if c.Notes, err = s.probes.SetNumbers(libraries...); err != nil {
		return c, err
	}
	c.Routes, err = s.probes.SetNumbers(routers...)
	return c, err
}
