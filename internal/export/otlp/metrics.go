package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
	var created []*metricExporter
	for _, name := range c.metrics.exporters {
		e, err := c.metricExporter(ctx, name, console)
		if err != nil {
			for _, earlier := range created {
				err = errors.Join(err, earlier.Shutdown(ctx))
			}
			return nil, err
		}
		e.config, e.resource = c, res
		e.health = NewHealth("metrics", log.With("exporter", e.name))
		created = append(created, e)
		opts = append(opts, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e,
			sdkmetric.WithInterval(c.metricInterval), sdkmetric.WithTimeout(c.metricTimeout))))
	}
	return sdkmetric.NewMeterProvider(opts...), nil
}

func (c *Config) metricExporter(ctx context.Context, name string, console io.Writer) (*metricExporter, error) {
	e := &metricExporter{name: name, timeout: noLimit, close: func() {}}
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
			otlpmetricgrpc.WithDialOption(to.compressor(), c.retry.connect()),
			otlpmetricgrpc.WithHeaders(to.headers),
			otlpmetricgrpc.WithTimeout(to.timeout),
			otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig(c.retry)))
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
			otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig(c.retry)))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot export metrics to %v: %w", to, err)
	}
	return e, nil
}

// A metricExporter is an exporter with what the configuration says about it. It reports its errors, because a reader
// would pass them to the SDK's global handler.
type metricExporter struct {
	sdkmetric.Exporter
	config   *Config
	resource *resource.Resource
	name     string
	timeout  time.Duration
	close    func()
	health   *Health
}

// Export sets the resource because a provider adds attributes from the environment of this process to its resource.
func (e *metricExporter) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	ctx, cancel := within(ctx, e.timeout)
	defer cancel()
	rm.Resource = e.resource
	if err := e.Exporter.Export(ctx, rm); err != nil {
		e.health.Failed(err, 1)
	} else {
		e.health.Succeeded()
	}
	return nil
}

func (e *metricExporter) Temporality(kind sdkmetric.InstrumentKind) metricdata.Temporality {
	switch e.config.temporality {
	case "delta":
		return sdkmetric.DeltaTemporalitySelector(kind)
	case "lowmemory":
		return sdkmetric.LowMemoryTemporalitySelector(kind)
	}
	return sdkmetric.CumulativeTemporalitySelector(kind)
}

func (e *metricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	if kind == sdkmetric.InstrumentKindHistogram && e.config.aggregation == exponential {
		return sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20} // the specification's defaults
	}
	return sdkmetric.DefaultAggregationSelector(kind)
}

func (e *metricExporter) Shutdown(ctx context.Context) error {
	defer e.close()
	return e.Exporter.Shutdown(ctx)
}
