package dashboard

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// TestCurrent checks that the files are those that the description makes.
func TestCurrent(t *testing.T) {
	const directory = "../../../deploy/grafana"
	var names []string
	for _, d := range All() {
		text := encoded(t, d)
		names = append(names, d.UID+".json")
		if file, err := os.ReadFile(filepath.Join(directory, d.UID+".json")); err != nil || !bytes.Equal(file, text) {
			t.Errorf("%s.json is not current (%v): run go generate ./internal/agent/dashboard", d.UID, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(names, filepath.Base(file)) {
			t.Errorf("%s belongs to no dashboard", file)
		}
	}
}

// classic is the form that all releases of Grafana import. Releases before 12 do not know the newer one.
//
//lint:ignore SA1019 because of them
type classic = grafana.Dashboard

// TestSchema decodes the dashboards strictly with the types that Grafana generates from its schema: unknown fields, missing ones and
// invalid values are errors.
func TestSchema(t *testing.T) {
	// Package plugins of the module registers all there are, which takes long to compile.
	for _, panel := range []variants.PanelcfgConfig{heatmap.VariantConfig(), stat.VariantConfig(), table.VariantConfig(), timeseries.VariantConfig()} {
		cog.NewRuntime().RegisterPanelcfgVariant(panel)
	}
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
	for _, d := range All() {
		var decoded classic
		if err := strictly(encoded(t, d), &decoded); err != nil {
			t.Errorf("%s: %v", d.UID, err)
			continue
		}
		if err := decoded.Validate(); err != nil {
			t.Errorf("%s: %v", d.UID, err)
		}
	}
	// The types do find mistakes.
	broken := bytes.Replace(encoded(t, fleet()), []byte(`"legendFormat"`), []byte(`"legend_format"`), 1)
	if strictly(broken, new(classic)) == nil {
		t.Error("an unknown field is accepted")
	}
}

// strict is what all types of the schema implement.
type strict interface{ UnmarshalJSONStrict([]byte) error }

// strictly decodes a value. The types return an empty list of errors rather than nil.
func strictly(text []byte, into strict) error {
	err := into.UnmarshalJSONStrict(text)
	if list, ok := err.(cog.BuildErrors); ok && len(list) == 0 {
		return nil
	}
	return err
}

// TestLayout checks what the schema does not: panels have distinct IDs and do not overlap, and each query has a data source.
func TestLayout(t *testing.T) {
	type place struct{ X, Y, W, H int }
	type sourced struct{ Datasource struct{ Type, UID string } }
	for _, d := range All() {
		var page struct {
			Panels []struct {
				sourced
				ID      int
				Type    string
				Title   string
				GridPos place
				Targets []struct {
					sourced
					RefID string
				}
			}
		}
		if err := json.Unmarshal(encoded(t, d), &page); err != nil {
			t.Fatal(err)
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range page.Panels {
			if ids[p.ID] || p.ID == 0 {
				t.Errorf("%s: ID %d of panel %q is not unique", d.UID, p.ID, p.Title)
			}
			ids[p.ID] = true
			at := p.GridPos
			if at.X < 0 || at.W <= 0 || at.H <= 0 || at.X+at.W > 24 {
				t.Errorf("%s: panel %q at %+v is outside of the grid", d.UID, p.Title, at)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("%s: panels %q and %q overlap at %d, %d", d.UID, other, p.Title, x, y)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			refs := map[string]bool{}
			for _, q := range p.Targets {
				if q.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" || refs[q.RefID] {
					t.Errorf("%s: panel %q: query %+v", d.UID, p.Title, q)
				}
				refs[q.RefID] = true
			}
			if len(refs) == 0 {
				t.Errorf("%s: panel %q has no query", d.UID, p.Title)
			}
		}
	}
}

// TestDescription checks the panels: each has a title, a unit of Grafana's and queries of metrics and variables that exist.
func TestDescription(t *testing.T) {
	known := []string{units.Short, units.CountsPerSecond, units.Seconds, units.BytesIEC, units.BytesPerSecondIEC, units.PercentUnit, units.NoUnit}
	for i, unit := range []Unit{Number, PerSecond, Seconds, Bytes, ByteRate, Part, Processors} {
		if string(unit) != known[i] {
			t.Errorf("unit %q, Grafana has %q", unit, known[i])
		}
	}
	used := map[string]bool{}
	for _, d := range All() {
		variables := []string{"__rate_interval"}
		for _, v := range d.Variables {
			checkVariables(t, d.UID+" "+v.Name, v.Of, variables)
			variables = append(variables, v.Name)
			checkMetrics(t, d.UID+" "+v.Name, v.Of, used)
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				where := d.UID + " " + p.Title
				if p.Title == "" || p.Unit == "" || (p.Kind == Table) != (len(p.Columns) > 0) {
					t.Errorf("%s: %+v", where, p)
				}
				for _, q := range p.Queries {
					checkVariables(t, where, q.Expr, variables)
					checkMetrics(t, where, q.Expr, used)
				}
			}
		}
	}
	for _, desc := range metric.Table {
		if !used[desc.Name] {
			t.Errorf("no dashboard shows %s", desc.Name)
		}
	}
}

// checkVariables checks that the variables in a query are among those of the page.
func checkVariables(t *testing.T, where, expr string, known []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(expr, -1) {
		if !slices.Contains(known, m[1]) {
			t.Errorf("%s: no variable %s", where, m[1])
		}
	}
}

// metricName finds the metrics of a query: words with the prefix of a metric, outside of strings, that are no labels.
var metricName = regexp.MustCompile(`\b(?:go|process|loupe)_\w+`)

// checkMetrics checks that the metrics and the labels in the matchers of a query are in the table.
func checkMetrics(t *testing.T, where, expr string, used map[string]bool) {
	t.Helper()
	found := 0
	for _, name := range metricName.FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`), -1) {
		base := name
		if !slices.ContainsFunc(metric.Table, func(d *metric.Desc) bool { return d.Name == name }) {
			base = strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count")
		}
		i := slices.IndexFunc(metric.Table, func(d *metric.Desc) bool {
			return d.Name == base || slices.ContainsFunc(d.Labels, func(l metric.Label) bool { return l.Name == name })
		})
		if i < 0 || metric.Table[i].Name == base && (metric.Table[i].Kind == metric.Histogram) != (base != name) {
			t.Errorf("%s: no metric %s", where, name)
			continue
		}
		found++
		used[base] = true
	}
	if found == 0 {
		t.Errorf("%s: no metric in %s", where, expr)
	}
}

func encoded(t *testing.T, d Dashboard) []byte {
	t.Helper()
	text, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
