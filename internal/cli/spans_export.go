package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/spans/control"
	"github.com/loupe-go/loupe/internal/term"
	"github.com/loupe-go/loupe/internal/version"
	"github.com/loupe-go/loupe/spans"
)

// exportDeadline is how long the end of an observation waits until the last spans are exported.
const exportDeadline = 10 * time.Second

// The variables with endpoints, of both signals and of each.
const (
	endpointVariable        = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVariable  = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	metricsEndpointVariable = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
)

// exporting are the variables of the environment that select an export.
var exporting = []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", endpointVariable, tracesEndpointVariable, metricsEndpointVariable}

// variable returns a variable of the environment. Flags have precedence.
func (v *spanView) variable(name string) (text string, ok bool) {
	text = v.a.Getenv(name)
	switch name {
	case endpointVariable:
		text = cmp.Or(v.flags.otlp, text)
	case tracesEndpointVariable, metricsEndpointVariable:
		if v.flags.otlp != "" {
			text = ""
		}
	case "OTEL_SERVICE_NAME":
		text = cmp.Or(v.flags.service, text)
	}
	return text, text != ""
}

// exports creates the controller if spans are exported.
func (v *spanView) exports(cmd *cobra.Command) error {
	wanted := false
	for _, name := range exporting {
		text, ok := v.variable(name)
		wanted = wanted || ok && text != "none" // none selects no exporter, and leaves the other signal at its default
	}
	if !wanted {
		return nil
	}
	config, warnings, err := otlp.Read(v.variable)
	if err != nil {
		problem := err.Error()
		if v.flags.otlp != "" {
			problem = strings.Replace(problem, endpointVariable+":", "--otlp:", 1)
		}
		return &usageError{problem: problem, command: cmd.CommandPath()}
	}
	for _, w := range warnings {
		v.a.note("%s", w)
	}
	if config.Disabled {
		return nil
	}
	log := slog.New(slog.NewTextHandler(v.a.Stderr, &slog.HandlerOptions{Level: config.LogLevel}))
	otlp.SetLog(log)
	var console io.Writer = spanWriter{v}
	if v.a.json { // stdout has the spans already
		console = v.a.Stderr
	}
	v.config = config
	v.controller, err = control.New(cmd.Context(), control.Options{Config: config, Console: console, Log: log, Version: version.Read().Version})
	return err
}

// beginExport describes the process to the controller.
func (v *spanView) beginExport(ctx context.Context, s session) (err error) {
	if v.controller == nil {
		return nil
	}
	info := s.Info()
	host, _ := os.Hostname() // unknown otherwise
	v.process, err = v.controller.Process(ctx, otlp.Process{PID: s.PID(), Name: filepath.Base(info.Exe), Path: info.Exe, GoVersion: info.GoVersion, Host: host})
	return err
}

// propagation returns how the requests that the program sends carry contexts, or nil if they are not to.
func (v *spanView) propagation() *loupe.Propagation {
	wanted := v.config != nil || v.flags.live.engine.name == string(loupe.EngineInline)
	if list, ok := v.variable("OTEL_PROPAGATORS"); ok && !strings.Contains(list, "tracecontext") {
		wanted = false
	}
	if v.flags.propagate != nil {
		wanted = *v.flags.propagate
	}
	list, ok := v.variable("OTEL_PROPAGATORS")
	baggage := !ok || strings.Contains(list, "baggage")
	switch {
	case !wanted:
		return nil
	case v.config == nil:
		return &loupe.Propagation{Baggage: baggage}
	}
	omit, ignoreParent, _ := control.ByTraceID(v.config.Sampler()) // which knows all samplers of the variables
	return &loupe.Propagation{Omit: omit, IgnoreParent: ignoreParent, Baggage: baggage}
}

func (v *spanView) sample(s *spans.Span) bool { return v.process.Sample(s) }

// endExport exports the last spans.
func (v *spanView) endExport(sum *report.SpanSummary) error {
	if v.controller == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), exportDeadline)
	defer stop()
	err := v.controller.Close(ctx)
	stats := v.controller.Stats()
	sum.Exported, sum.Dropped, sum.Failed = stats.Exported, stats.Dropped, stats.Failed
	if missing := stats.Dropped + stats.Failed; missing > 0 {
		fmt.Fprintf(v.a.Stderr, "loupe: %s not exported: %s\n", english.Count(missing, "span"), term.Escape(fmt.Sprint(err)))
		return nil // the line and the summary say it
	}
	return err
}
