package metric_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

var update = flag.Bool("update", false, "write the tables of docs/METRICS.md")

// The parts of docs/METRICS.md between these lines are generated from the table.
const begin, end = "<!-- generated: %s -->\n", "<!-- end -->\n"

// TestDocs compares docs/METRICS.md with the table. With -update it writes the file.
func TestDocs(t *testing.T) {
	const path = "../../../docs/METRICS.md"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := have
	for name, text := range map[string]string{
		"labels": labelTable(), "targets": rows(metric.Target), "agent": rows(metric.Agent),
	} {
		mark := fmt.Appendf(nil, begin, name)
		before, rest, ok := bytes.Cut(want, mark)
		_, after, ok2 := bytes.Cut(rest, []byte(end))
		if !ok || !ok2 {
			t.Fatalf("%s has no part %q", path, mark)
		}
		want = bytes.Join([][]byte{before, mark, []byte(text), []byte(end), after}, nil)
	}
	if bytes.Equal(have, want) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the table; run go test ./internal/agent/metric -update", path)
	}
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
}

func labelTable() string {
	var b strings.Builder
	b.WriteString("| label | attribute | meaning |\n|---|---|---|\n")
	for _, l := range metric.TargetLabels {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", l.Name, l.OTel, l.Doc)
	}
	return b.String()
}

func rows(scope metric.Scope) string {
	var b strings.Builder
	b.WriteString("| Prometheus | OpenTelemetry | kind | unit | labels | meaning |\n|---|---|---|---|---|---|\n")
	for _, d := range metric.Table {
		if d.Scope == scope {
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | `%s` | %s | %s |\n", d.Name, d.OTel, kind(d), d.Unit, describe(d.Labels), d.Help)
		}
	}
	return b.String()
}

func kind(d *metric.Desc) string {
	switch {
	case d.UpDown:
		return "up-down counter"
	case d.Kind == metric.Counter:
		return "counter"
	case d.Kind == metric.Histogram:
		return "histogram"
	}
	return "gauge"
}

func describe(list []metric.Label) string {
	var parts []string
	for _, l := range list {
		name := "`" + l.Name + "`"
		if strings.ReplaceAll(l.OTel, ".", "_") != l.Name {
			name += " (`" + l.OTel + "`)"
		}
		parts = append(parts, name+": "+l.Doc)
	}
	return strings.Join(parts, "<br>")
}
