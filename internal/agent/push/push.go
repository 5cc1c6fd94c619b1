package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
	"github.com/loupe-go/loupe/internal/spans/control"
)

// Stats are the counts of a signal, in data points, spans, log records or profiles. A profile that became a file was exported.
type Stats struct {
	otlp.Stats

	// Since is when exporting began to fail; zero while it works. Err is the last error, in one line.
	Since time.Time
	Err   string
}

// A Pusher exports what is known about many targets. Its methods are safe for concurrent use, and do not wait for the back end, except
// Close.
type Pusher struct {
	resources resources
	scope     instrumentation.Scope
	batch     int
	source    func(context.Context) []metric.Group

	controller *control.Controller
	traces     bool     // spans are exported
	metrics    *metrics // nil: not exported
	logs       *logs    // nil: not exported
	profiles   *profiles

	closing  sync.Once
	closeErr error
}

// New returns a Pusher, which exports until Close. Warnings are lines about variables that are ignored. The error is one line about an
// option, a variable, a file with certificates, or the directory.
func New(ctx context.Context, o Options) (p *Pusher, warnings []string, err error) {
	config, warnings, err := o.read()
	if err != nil {
		return nil, nil, err
	}
	p = &Pusher{
		resources: resources{config, o.Version, o.Host}, scope: newScope(o.Version),
		batch: cmp.Or(o.BatchSize, defaultBatch), source: o.Metrics,
	}
	if err := p.open(ctx, config, &o); err != nil {
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_ = p.Close(canceled) // nothing was exported yet
		return nil, nil, err
	}
	return p, warnings, nil
}

// open creates the exporters.
func (p *Pusher) open(ctx context.Context, config *otlp.Config, o *Options) error {
	p.traces = config.ExportsTraces()
	var err error
	sampler := o.Sampler
	if !p.traces {
		sampler = sdktrace.NeverSample()
	}
	p.controller, err = control.New(ctx, control.Options{
		Config: config, Sampler: sampler, Console: os.Stdout, Log: o.Log, Version: o.Version, Ended: p.ended,
	})
	if err != nil {
		return err
	}
	exporters, err := config.MetricExporters(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if len(exporters) > 0 {
		p.metrics = newMetrics(config, exporters, o.Log, p.collect)
	}
	if p.logs, err = newLogs(ctx, config, o.Log); err != nil {
		return err
	}
	p.profiles, err = newProfiles(config, o, p.scope)
	return err
}

// collect returns what the next round exports.
func (p *Pusher) collect(ctx context.Context) []request {
	var list []request
	if p.source != nil {
		list = p.requestsOf(p.source(ctx))
	}
	for _, rm := range p.controller.Collect(ctx) {
		list = append(list, request{pointsOf(rm), rm})
	}
	return list
}

// ended receives the durations of requests of a target that has vanished.
func (p *Pusher) ended(rm *metricdata.ResourceMetrics) {
	if p.metrics != nil {
		p.metrics.keep([]request{{pointsOf(rm), rm}})
	}
}

// Stats returns the counts of the signals that are exported.
func (p *Pusher) Stats() map[Signal]Stats {
	all := map[Signal]Stats{}
	if p.metrics != nil {
		all[Metrics] = p.metrics.read()
	}
	if p.traces {
		s := Stats{Stats: p.controller.Stats()}
		s.Since, s.Err, _ = p.controller.Failing()
		all[Traces] = s
	}
	if p.logs != nil {
		s := Stats{Stats: p.logs.queue.Stats()}
		s.Since, s.Err, _ = p.logs.queue.Failing()
		all[Logs] = s
	}
	if p.profiles != nil {
		all[Profiles] = p.profiles.read()
	}
	return all
}

// Points returns the counts as points of the agent's own metrics.
func (p *Pusher) Points() []metric.Point {
	var list []metric.Point
	all := p.Stats()
	for _, signal := range Signals {
		if s, ok := all[signal]; ok {
			list = append(list, metric.ExportItems.Of(float64(s.Exported), string(signal), "exported"),
				metric.ExportItems.Of(float64(s.Failed), string(signal), "failed"), metric.ExportItems.Of(float64(s.Dropped), string(signal), "dropped"))
		}
	}
	return list
}

// Err returns nil while exporting works, and one line about the signals that cannot be exported otherwise. A signal of which nothing was
// exported yet counts as working.
func (p *Pusher) Err() error {
	var failing []string
	all := p.Stats()
	for _, signal := range Signals {
		if s := all[signal]; !s.Since.IsZero() {
			failing = append(failing, fmt.Sprintf("cannot export %s since %s: %s", signal, s.Since.UTC().Format(time.RFC3339), s.Err))
		}
	}
	if failing == nil {
		return nil
	}
	return errors.New(strings.Join(failing, "; "))
}

// Close exports what is left, and the metrics once more, until ctx ends, plus at most two seconds. The rest is dropped. The error is one
// line, and says what was not exported.
func (p *Pusher) Close(ctx context.Context) error {
	p.closing.Do(func() { p.closeErr = p.close(ctx) })
	return p.closeErr
}

func (p *Pusher) close(ctx context.Context) error {
	var all sync.WaitGroup
	errs := make([]error, 5)
	if p.controller != nil {
		all.Go(func() { errs[3] = p.controller.Flush(ctx) })
	}
	if p.metrics != nil {
		all.Go(func() { errs[0] = p.metrics.close(ctx) })
	}
	if p.logs != nil {
		all.Go(func() { errs[1] = p.logs.queue.Close(ctx) })
	}
	if p.profiles != nil {
		all.Go(func() { errs[2] = p.profiles.close(ctx) })
	}
	all.Wait()
	// Last, because the metrics contain the durations of requests.
	if p.controller != nil {
		errs[4] = p.controller.Close(ctx)
	}
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}
