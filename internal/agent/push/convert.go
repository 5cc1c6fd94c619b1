package push

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// scopeName is the instrumentation scope of what the agent itself finds out.
const scopeName = "github.com/loupe-go/loupe/agent"

// A request is what one request exports.
type request struct {
	points int
	rm     *metricdata.ResourceMetrics
}

// pointsOf returns the number of data points in the metrics of an SDK.
func pointsOf(rm *metricdata.ResourceMetrics) int {
	n := 0
	for _, s := range rm.ScopeMetrics {
		for _, m := range s.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				n += len(data.DataPoints)
			case metricdata.ExponentialHistogram[float64]:
				n += len(data.DataPoints)
			}
		}
	}
	return n
}

// convert returns the points of a group, at most batch of them in each request.
func convert(g *metric.Group, res *resource.Resource, scope instrumentation.Scope, batch int) []request {
	var list []request
	for points := g.Points; len(points) > 0; {
		n := min(batch, len(points))
		list = append(list, request{n, &metricdata.ResourceMetrics{
			Resource:     res,
			ScopeMetrics: []metricdata.ScopeMetrics{{Scope: scope, Metrics: metricsOf(points[:n], time.Unix(0, g.Start), time.Unix(0, g.At))}},
		}})
		points = points[n:]
	}
	return list
}

// metricsOf returns points by metric, in the order of their first points.
func metricsOf(points []metric.Point, start, at time.Time) []metricdata.Metrics {
	var order []*metric.Desc
	byDesc := map[*metric.Desc][]*metric.Point{}
	for i := range points {
		d := points[i].Desc
		if byDesc[d] == nil {
			order = append(order, d)
		}
		byDesc[d] = append(byDesc[d], &points[i])
	}
	list := make([]metricdata.Metrics, 0, len(order))
	for _, d := range order {
		list = append(list, metricdata.Metrics{Name: d.OTel, Description: description(d), Unit: d.Unit, Data: data(d, byDesc[d], start, at)})
	}
	return list
}

// description returns what a metric is about. That of metrics with information in their labels is "1", which says nothing.
func description(d *metric.Desc) string {
	if d.Help == "1" {
		return ""
	}
	return d.Help
}

// data returns the points of one metric.
func data(d *metric.Desc, points []*metric.Point, start, at time.Time) metricdata.Aggregation {
	if d.Kind == metric.Histogram {
		h := metricdata.ExponentialHistogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, p := range points {
			if p.Durations == nil || p.Durations.Histogram == nil {
				continue
			}
			point := exponential(p.Durations.Histogram, attributesOf(p), start, at)
			point.Exemplars = exemplars(p.Durations.Exemplars)
			h.DataPoints = append(h.DataPoints, point)
		}
		return h
	}
	values := make([]metricdata.DataPoint[float64], 0, len(points))
	for _, p := range points {
		values = append(values, metricdata.DataPoint[float64]{Attributes: attributesOf(p), StartTime: start, Time: at, Value: p.Value})
	}
	switch {
	case d.Kind == metric.Counter:
		return metricdata.Sum[float64]{DataPoints: values, Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	case d.UpDown:
		return metricdata.Sum[float64]{DataPoints: values, Temporality: metricdata.CumulativeTemporality}
	}
	return metricdata.Gauge[float64]{DataPoints: values}
}

// attributesOf returns the labels of a point that have a value.
func attributesOf(p *metric.Point) attribute.Set {
	var attrs []attribute.KeyValue
	for i, l := range p.Desc.Labels {
		if i < len(p.Labels) && p.Labels[i] != "" {
			attrs = append(attrs, attribute.String(l.OTel, clean(p.Labels[i], maxText)))
		}
	}
	return attribute.NewSet(attrs...)
}

// newScope returns the instrumentation scope of a version of Loupe.
func newScope(version string) instrumentation.Scope {
	return instrumentation.Scope{Name: scopeName, Version: version, SchemaURL: semconv.SchemaURL}
}
