package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
)

// MeterProvider returns a provider whose metrics are exported periodically by each exporter in OTEL_METRICS_EXPORTER. The
// console exporter writes to console from goroutines of the provider. The caller shuts the provider down, which exports once more.
//
// log receives a message when an exporter begins to fail, and when it succeeds again. ForceFlush and Shutdown of the
// provider do not return these errors. log may be nil. Errors are about files with certificates and keys.
func (c *Config) MeterProvider(ctx context.Context, res *resource.Resource, console io.Writer, log *slog.Logger) (*sdkmetric.MeterProvider, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := []sdkmetric.Option{
		sdkmetric.WithResource(res),
		sdkmetric.WithExemplarFilter(exemplar.AlwaysOffFilter), // recording has no span to refer to
	}
	exporters, err := c.MetricExporters(ctx, console)
	if err != nil {
		return nil, err
	}
	for _, e := range exporters {
		own := &resourceExporter{MetricExporter: e, resource: res, health: NewHealth("metrics", log.With("exporter", e.name))}
		opts = append(opts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(own,
			sdkmetric.WithInterval(c.metricInterval), sdkmetric.WithTimeout(c.metricTimeout))))
	}
	return sdkmetric.NewMeterProvider(opts...), nil
}

// CollectedMetrics returns a provider whose metrics are not exported: collect returns them, for the resource at that time.
// Durations of operations whose span is sampled become exemplars.
func (c *Config) CollectedMetrics(res *atomic.Pointer[resource.Resource]) (provider *sdkmetric.MeterProvider, collect func(context.Context) (*metricdata.ResourceMetrics, error)) {
	preferences := &MetricExporter{config: c}
	reader := sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(preferences.Temporality), sdkmetric.WithAggregationSelector(preferences.Aggregation))
	collect = func(ctx context.Context) (*metricdata.ResourceMetrics, error) {
		rm := &metricdata.ResourceMetrics{}
		err := reader.Collect(ctx, rm)
		rm.Resource = res.Load() // a provider adds attributes from the environment of this process
		return rm, err
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithExemplarFilter(exemplar.TraceBasedFilter)), collect
}

// MetricTimes returns how often metrics are exported, and the timeout of an export of all of them.
func (c *Config) MetricTimes() (interval, timeout time.Duration) {
	return c.metricInterval, c.metricTimeout
}

// MetricExporters returns the exporters in OTEL_METRICS_EXPORTER. Errors are about files with certificates and keys.
func (c *Config) MetricExporters(ctx context.Context, console io.Writer) ([]*MetricExporter, error) {
	var list []*MetricExporter
	for _, name := range c.metrics.exporters {
		e, err := c.metricExporter(ctx, name, console)
		if err != nil {
			for _, earlier := range list {
				err = errors.Join(err, earlier.Shutdown(ctx))
			}
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func (c *Config) metricExporter(ctx context.Context, name string, console io.Writer) (*MetricExporter, error) {
	e := &MetricExporter{config: c, name: name, timeout: noLimit, close: func() {}}
	var err error
	if name == consoleExporter {
		e.Exporter, err = stdoutmetric.New(stdoutmetric.WithWriter(console))
		return e, err
	}
	to := c.metrics.endpoint
	secure, err := to.tls()
	if err != nil {
		return nil, err
	}
	e.name, e.timeout = to.String(), to.timeout
	if to.protocol == protocolGRPC {
		e.Exporter, err = otlpmetricgrpc.New(ctx,
			otlpmetricgrpc.WithEndpoint(to.target),
			otlpmetricgrpc.WithTLSCredentials(transportCredentials(secure)),
			otlpmetricgrpc.WithDialOption(to.compressor(), c.Retry.connect()),
			otlpmetricgrpc.WithHeaders(to.headers),
			otlpmetricgrpc.WithTimeout(to.timeout),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig(c.Retry)))
	} else {
		t := newTransport(secure)
		compression := otlpmetrichttp.NoCompression
		if to.gzip {
			compression = otlpmetrichttp.GzipCompression
		}
		e.close = t.CloseIdleConnections
		e.Exporter, err = otlpmetrichttp.New(ctx,
			otlpmetrichttp.WithEndpointURL(to.url),
			otlpmetrichttp.WithTLSClientConfig(secure),
			otlpmetrichttp.WithHTTPClient(&http.Client{Transport: t}),
			otlpmetrichttp.WithCompression(compression),
			otlpmetrichttp.WithHeaders(to.headers),
			otlpmetrichttp.WithTimeout(to.timeout),
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig(c.Retry)))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot export metrics to %v: %w", to, err)
	}
	return e, nil
}

// A MetricExporter is an exporter with what the configuration says about it.
type MetricExporter struct {
	sdkmetric.Exporter
	config  *Config
	name    string
	timeout time.Duration
	close   func()
}

// String returns the name of the exporter in messages.
func (e *MetricExporter) String() string { return e.name }

// Export exports metrics with one request.
func (e *MetricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	ctx, cancel := Within(ctx, e.timeout)
	defer cancel()
	return e.Exporter.Export(ctx, rm)
}

// Temporality returns the preferred temporality of an instrument.
func (e *MetricExporter) Temporality(kind sdkmetric.InstrumentKind) metricdata.Temporality {
	switch e.config.temporality {
	case "delta":
		return sdkmetric.DeltaTemporalitySelector(kind)
	case "lowmemory":
		return sdkmetric.LowMemoryTemporalitySelector(kind)
	}
	return sdkmetric.CumulativeTemporalitySelector(kind)
}

// Aggregation returns the preferred aggregation of an instrument.
func (e *MetricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	if kind == sdkmetric.InstrumentKindHistogram && e.config.aggregation == exponential {
		return sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20} // the specification's defaults
	}
	return sdkmetric.DefaultAggregationSelector(kind)
}

// Shutdown closes the connection.
func (e *MetricExporter) Shutdown(ctx context.Context) error {
	defer e.close()
	return e.Exporter.Shutdown(ctx)
}

// A resourceExporter exports the metrics of one resource. It reports its errors, because a reader would pass them to the SDK's global
// handler.
type resourceExporter struct {
	*MetricExporter
	resource *resource.Resource
	health   *Health
}

// Export sets the resource because a provider adds attributes from the environment of this process to its resource.
func (e *resourceExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	rm.Resource = e.resource
	if err := e.MetricExporter.Export(ctx, rm); err != nil {
		e.health.Failed(err, 1)
	} else {
		e.health.Succeeded()
	}
	return nil
}
