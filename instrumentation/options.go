package instrumentation

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/spans"
)

// An Option configures an [Instrumentation].
type Option func(*config)

// config is what the options and the environment select.
type config struct {
	pids        []int
	exes        []string
	service     string
	env         bool
	handler     func(*spans.Span)
	provider    trace.TracerProvider
	sampler     sdktrace.Sampler // nil: that of the environment, or that of loupe.SpanOptions
	engine      loupe.Engine
	log         *slog.Logger
	noBreakdown bool
	allocations bool
	noQueryText bool
	noParsing   bool // of statements
	functions   []string
	profilerMap string

	exports  *otlp.Config // nil: spans are not exported
	disabled bool         // nothing is observed because OTEL_SDK_DISABLED is true

	closeTimeout time.Duration
}

// WithPID observes the processes with the given IDs. It may be used more than once.
func WithPID(pids ...int) Option {
	return func(c *config) { c.pids = append(c.pids, pids...) }
}

// WithExe observes all processes that run the executable at a path, also those that start later. A process in a container matches if
// this is the path in the container. A process continues to match if its executable has been replaced or removed. A path without a
// slash is the base name of an executable or the name of a process, as for [loupe.Find]. WithExe may be used more than once.
//
// A process is found within half a second, or within 5 seconds if it executes the program later than 2 seconds after it was created.
func WithExe(path string) Option {
	return func(c *config) { c.exes = append(c.exes, path) }
}

// WithServiceName sets service.name of exported spans and metrics. It has precedence over OTEL_SERVICE_NAME.
func WithServiceName(name string) Option {
	return func(c *config) { c.service = name }
}

// WithEnv reads environment variables (see the package documentation), and exports spans and metrics accordingly. If no variable is
// set, they are exported by OTLP to http://localhost:4318. Other options have precedence over the environment, in any order.
func WithEnv() Option {
	return func(c *config) { c.env = true }
}

// WithHandler passes each span to a function when it ends, whether it is sampled or not. Calls for spans of one process are
// sequential. Calls for spans of different processes can be concurrent. The function may keep the span, but not change it. While it is
// called, no other events of the process are read: if it takes long, the buffer becomes full and spans are lost, which
// [Instrumentation.Stats] counts.
func WithHandler(handle func(*spans.Span)) Option {
	return func(c *config) { c.handler = handle }
}

// WithTracerProvider makes the spans that are sampled once more, with the API of OpenTelemetry. Tracers have the name of the library,
// such as "github.com/loupe-go/loupe/spans/net/http".
//
// The spans have the IDs, the resource and the limits of the provider, and the provider also samples them. Only the parent in the
// headers of a request keeps its IDs. A span starts after its parent, although it ends earlier: it is passed to the provider when the
// outermost span of the request in this process has ended. If this end is never observed, for example because the process is killed,
// the span is passed on when the process has ended, with the ID that Loupe has given to its parent.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.provider = provider }
}

// WithSampler sets the sampler that decides which spans are exported and passed to the provider of [WithTracerProvider]. By default
// spans without a parent are sampled, others if their parent is. With a sampler that is not one of the SDK, requests that the processes
// send get no traceparent header, because their spans are sampled later.
func WithSampler(sampler sdktrace.Sampler) Option {
	return func(c *config) { c.sampler = sampler }
}

// WithEngine selects how processes are observed. The default is [loupe.EngineAuto].
func WithEngine(engine loupe.Engine) Option {
	return func(c *config) { c.engine = engine }
}

// WithLogger sets the logger for messages about processes and exports. By default messages are discarded or, with [WithEnv], written to
// stderr.
func WithLogger(log *slog.Logger) Option {
	return func(c *config) { c.log = log }
}

// WithoutBreakdown omits how requests spend their time, which is cheaper: see loupe.SpanOptions.NoWork.
func WithoutBreakdown() Option {
	return func(c *config) { c.noBreakdown = true }
}

// WithAllocations counts the bytes and objects that each request allocates: see loupe.SpanOptions.Allocs. Each allocation of the programs
// costs some nanoseconds more with [loupe.EngineInline], which [loupe.EngineAuto] then prefers, and 1 µs or more with engine uprobe.
func WithAllocations() Option {
	return func(c *config) { c.allocations = true }
}

// WithoutQueryText omits the text of statements that programs send to databases: see loupe.SpanOptions.NoQueryText. With [WithEnv], the
// value false of OTEL_GO_AUTO_INCLUDE_DB_STATEMENT does the same.
func WithoutQueryText() Option {
	return func(c *config) { c.noQueryText = true }
}

// WithoutQueryParsing omits what is found in the text of SQL statements: see loupe.SpanOptions.NoQueryParsing. With [WithEnv], the value
// false of OTEL_GO_AUTO_PARSE_DB_STATEMENT does the same.
func WithoutQueryParsing() Option {
	return func(c *config) { c.noParsing = true }
}

// WithFunctions also makes spans of the calls of functions of the programs, given by patterns: see loupe.SpanOptions.Functions. A program
// without a function that matches cannot be observed. WithFunctions may be used more than once.
func WithFunctions(patterns ...string) Option {
	return func(c *config) { c.functions = append(c.functions, patterns...) }
}

// WithProfilerMap fills the BPF map at a path, by which eBPF profilers know the spans that threads work for: see
// loupe.SpanOptions.ProfilerMap. An empty path means [loupe.DefaultProfilerMap].
func WithProfilerMap(path string) Option {
	return func(c *config) { c.profilerMap = cmp.Or(path, loupe.DefaultProfilerMap) }
}

// closeTimeout is how long Close waits for the end of the observation and for the exports.
const closeTimeout = 10 * time.Second

// newConfig applies options and reads the environment. lookup returns the value of a variable as os.LookupEnv does.
func newConfig(options []Option, lookup func(string) (string, bool)) (*config, error) {
	c := &config{closeTimeout: closeTimeout}
	for _, o := range options {
		o(c)
	}
	if c.env {
		if err := c.readEnv(lookup); err != nil {
			return nil, err
		}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, c.check()
}

// readEnv reads the environment for what no option has set.
func (c *config) readEnv(lookup func(string) (string, bool)) error {
	exports, warnings, err := otlp.Read(func(name string) (string, bool) {
		if name == "OTEL_SERVICE_NAME" && c.service != "" {
			return c.service, true
		}
		return lookup(name)
	})
	if err != nil {
		return err
	}
	if c.log == nil {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: exports.LogLevel}))
	}
	for _, w := range warnings {
		c.log.Warn(w)
	}
	if c.sampler == nil {
		c.sampler = exports.Sampler()
	}
	if exports.Disabled {
		c.disabled = c.handler == nil && c.provider == nil
	} else {
		c.exports = exports
	}
	c.noQueryText = c.noQueryText || c.isFalse(lookup, "OTEL_GO_AUTO_INCLUDE_DB_STATEMENT")
	c.noParsing = c.noParsing || c.isFalse(lookup, "OTEL_GO_AUTO_PARSE_DB_STATEMENT")
	if len(c.pids)+len(c.exes) > 0 {
		return nil
	}
	return c.readTargets(lookup)
}

// isFalse reports whether a variable is set to false.
func (c *config) isFalse(lookup func(string) (string, bool), name string) bool {
	text, _ := lookup(name)
	if strings.TrimSpace(text) == "" {
		return false
	}
	value, err := strconv.ParseBool(strings.TrimSpace(text))
	if err != nil {
		c.log.Warn(fmt.Sprintf("%s=%s is invalid: must be true or false; ignoring it", name, text))
	}
	return err == nil && !value
}

// propagation returns how the requests that the processes send carry the contexts of spans; nil if they do not. Exported spans have
// these contexts. A provider gives its spans others.
func (c *config) propagation() *loupe.Propagation {
	if c.exports == nil || !slices.Contains(c.exports.Propagators, "tracecontext") {
		return nil
	}
	omit, ignoreParent, ok := control.ByTraceID(c.sampler)
	if !ok {
		return nil
	}
	return &loupe.Propagation{Omit: omit, IgnoreParent: ignoreParent, Baggage: slices.Contains(c.exports.Propagators, "baggage")}
}

// readTargets reads the variables that select processes.
func (c *config) readTargets(lookup func(string) (string, bool)) error {
	if exe, _ := lookup("OTEL_GO_AUTO_TARGET_EXE"); strings.TrimSpace(exe) != "" {
		c.exes = []string{strings.TrimSpace(exe)}
	}
	list, _ := lookup("OTEL_GO_AUTO_TARGET_PID")
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for text := range strings.SplitSeq(list, ",") {
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("OTEL_GO_AUTO_TARGET_PID=%s is invalid: must be process IDs, separated by commas", list)
		}
		c.pids = append(c.pids, pid)
	}
	return nil
}

// check refuses a configuration that makes no sense.
func (c *config) check() error {
	slices.Sort(c.pids)
	c.pids = slices.Compact(c.pids)
	for _, pid := range c.pids {
		switch {
		case pid <= 0:
			return fmt.Errorf("process ID %d is invalid: must be positive", pid)
		case pid == os.Getpid():
			return fmt.Errorf("process %d is this process, which cannot observe itself", pid)
		}
	}
	for i, exe := range c.exes {
		if _, err := strconv.Atoi(exe); err == nil || exe == "" {
			return fmt.Errorf("executable %q is invalid: must be a path; use WithPID for a process ID", exe)
		}
		if strings.ContainsRune(exe, filepath.Separator) {
			abs, err := filepath.Abs(exe)
			if err != nil {
				return err
			}
			c.exes[i] = abs
		}
	}
	slices.Sort(c.exes)
	c.exes = slices.Compact(c.exes)
	switch c.engine {
	case "", loupe.EngineAuto, loupe.EngineUprobe, loupe.EngineInline:
	default:
		return fmt.Errorf("unknown engine %q: must be one of auto, uprobe, inline", c.engine)
	}
	switch {
	case c.profilerMap != "" && c.engine == loupe.EngineInline:
		return errors.New("WithProfilerMap requires engine uprobe")
	case c.profilerMap != "" && c.noBreakdown:
		return errors.New("WithProfilerMap and WithoutBreakdown exclude each other")
	case c.profilerMap != "" && c.provider != nil:
		return errors.New("WithProfilerMap and WithTracerProvider exclude each other: the provider chooses other IDs")
	case c.disabled:
		return nil
	case len(c.pids)+len(c.exes) == 0 && c.env:
		return errors.New("no process is selected: use WithPID or WithExe, or set OTEL_GO_AUTO_TARGET_EXE or OTEL_GO_AUTO_TARGET_PID")
	case len(c.pids)+len(c.exes) == 0:
		return errors.New("no process is selected: use WithPID or WithExe")
	case c.handler == nil && c.provider == nil && c.exports == nil:
		return errors.New("spans have no destination: use WithHandler, WithTracerProvider or WithEnv")
	}
	return nil
}
