package metric_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/otlptranslator"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/goconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/processconv"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// instruments are the rows of the table that OpenTelemetry's conventions define.
var instruments = map[*metric.Desc]interface{ Name() string }{
	metric.MemoryUsed:       goconv.MemoryUsed{},
	metric.MemoryLimit:      goconv.MemoryLimit{},
	metric.MemoryAllocated:  goconv.MemoryAllocated{},
	metric.Allocations:      goconv.MemoryAllocations{},
	metric.GCGoal:           goconv.MemoryGCGoal{},
	metric.GCCycles:         goconv.MemoryGCCycles{},
	metric.GCPauses:         goconv.MemoryGCPauseDuration{},
	metric.Goroutines:       goconv.GoroutineCount{},
	metric.ProcessorLimit:   goconv.ProcessorLimit{},
	metric.ScheduleDuration: goconv.ScheduleDuration{},
	metric.GOGC:             goconv.ConfigGogc{},
	metric.CPUTime:          goconv.CPUTime{},
	metric.ProcessCPU:       processconv.CPUTime{},
	metric.ProcessMemory:    processconv.MemoryUsage{},
}

// attributes are the attributes of the table that OpenTelemetry's conventions define.
var attributes = []attribute.Key{
	semconv.K8SNamespaceNameKey, semconv.K8SPodNameKey, semconv.K8SContainerNameKey, semconv.K8SNodeNameKey,
	semconv.ProcessExecutableNameKey, semconv.ProcessPIDKey, semconv.ProcessRuntimeVersionKey,
	semconv.ServiceNameKey, semconv.ServiceVersionKey,
	semconv.GoMemoryTypeKey, semconv.GoCPUStateKey, semconv.CPUModeKey, semconv.ErrorTypeKey,
}

// TestConventions compares the table with OpenTelemetry's semantic conventions, as its Go module has them.
func TestConventions(t *testing.T) {
	for _, d := range metric.Table {
		in := instruments[d]
		if (in == nil) != strings.HasPrefix(d.OTel, "loupe.") {
			t.Errorf("%s: only names of the conventions have no prefix loupe", d.OTel)
		}
		if in == nil {
			continue
		}
		name, unit, kind := in.Name(), in.(interface{ Unit() string }).Unit(), reflect.TypeOf(in).Field(0).Name
		want := map[metric.Kind]string{metric.Gauge: "Gauge", metric.Counter: "Counter", metric.Histogram: "Histogram"}[d.Kind]
		if d.UpDown {
			want = "UpDownCounter"
		}
		_, kind, _ = strings.Cut(kind, "64")
		if kind = strings.TrimPrefix(kind, "Observable"); name != d.OTel || unit != d.Unit || kind != want {
			t.Errorf("%s %s %s; the conventions have %s %s %s", d.OTel, d.Unit, want, name, unit, kind)
		}
	}
	for _, l := range labels() {
		if ours := strings.HasPrefix(l.OTel, "loupe."); ours == slices.Contains(attributes, attribute.Key(l.OTel)) {
			t.Errorf("attribute %s: only names of the conventions have no prefix loupe", l.OTel)
		}
	}
}

// labels returns all labels of the table.
func labels() []metric.Label {
	all := slices.Clone(metric.TargetLabels)
	for _, d := range metric.Table {
		all = append(all, d.Labels...)
	}
	return all
}

// TestTranslatedNames checks that Prometheus has the same name for a metric that it scrapes and for one that it receives by OTLP.
func TestTranslatedNames(t *testing.T) {
	namer := otlptranslator.NewMetricNamer("", otlptranslator.UnderscoreEscapingWithSuffixes)
	labelNamer := otlptranslator.LabelNamer{}
	for _, d := range metric.Table {
		m := otlptranslator.Metric{Name: d.OTel, Unit: d.Unit}
		switch {
		case d.UpDown:
			m.Type = otlptranslator.MetricTypeNonMonotonicCounter
		case d.Kind == metric.Gauge:
			m.Type = otlptranslator.MetricTypeGauge
		case d.Kind == metric.Counter:
			m.Type = otlptranslator.MetricTypeMonotonicCounter
		case d.Kind == metric.Histogram:
			m.Type = otlptranslator.MetricTypeHistogram
		}
		if got, err := namer.Build(m); err != nil || got != d.Name {
			t.Errorf("%s (%s) is %s by OpenTelemetry's rules, want %s; %v", d.OTel, d.Unit, got, d.Name, err)
		}
		if instruments[d] == nil {
			continue
		}
		for _, l := range d.Labels {
			if got, err := labelNamer.Build(l.OTel); err != nil || got != l.Name {
				t.Errorf("%s: %s is %s by OpenTelemetry's rules, want %s; %v", d.Name, l.OTel, got, l.Name, err)
			}
		}
	}
}

func TestTable(t *testing.T) {
	for i, d := range metric.Table {
		if d.Help == "" || strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: help %q", d.Name, d.Help)
		}
		if d.UpDown && d.Kind != metric.Gauge || d.Kind == metric.Histogram && d.Unit != "s" {
			t.Errorf("%s: %+v", d.Name, d)
		}
		for _, o := range metric.Table[:i] {
			if o.Name == d.Name || o.OTel == d.OTel || strings.HasPrefix(o.OTel, d.OTel+".") || strings.HasPrefix(d.OTel, o.OTel+".") {
				t.Errorf("%s and %s: a name must not be another one, or its namespace", o.OTel, d.OTel)
			}
		}
		seen := map[string]bool{"le": true, "job": true, "instance": true}
		list := d.Labels
		if d.Scope == metric.Target {
			list = slices.Concat(metric.TargetLabels, d.Labels)
		}
		for _, l := range list {
			if seen[l.Name] || l.Doc == "" {
				t.Errorf("%s: label %s", d.Name, l.Name)
			}
			seen[l.Name] = true
		}
	}
}

// TestTableIsComplete checks that the table has each metric that the package declares.
func TestTableIsComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if call, ok := spec.Values[0].(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.Ident); ok && slices.Contains([]string{"gauge", "upDown", "counter", "histogram"}, f.Name) {
					rows++
				}
			}
		}
		return true
	})
	if rows == 0 || rows != len(metric.Table) {
		t.Errorf("%d metrics are declared, and %d are in the table", rows, len(metric.Table))
	}
}
