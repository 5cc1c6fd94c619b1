package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metrics "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/loupe-go/loupe/internal/agent/dashboard"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/metric/metrictest"
	"github.com/loupe-go/loupe/internal/agent/serve"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// A prometheus is a running Prometheus that scrapes an exporter of all metrics, with scrape.yaml and rules.yaml.
type prometheus struct{ base string }

// startPrometheus returns when there are enough samples for rates.
func startPrometheus(t *testing.T) prometheus {
	t.Helper()
	fleet := &metrictest.Fleet{Targets: 3, Trouble: true}
	registry := metrics.NewRegistry()
	registry.MustRegister(serve.NewCollector(serve.CollectorOptions{
		Source: func(context.Context) []metric.Group { return alarming(fleet.Groups(time.Now())) },
		MinAge: time.Millisecond,
	}))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	rules, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := scrape(t, strings.TrimPrefix(server.URL, "http://"), string(rules), "250ms")
	deadline := time.Now().Add(testcmd.Patience)
	for len(p.query(t, `count_over_time(loupe_agent_build_info[1m]) >= 4`)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("Prometheus has no samples: ", p.get(t, "/api/v1/targets", nil))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return p
}

// scrape starts a Prometheus that scrapes an address at an interval, with scrape.yaml and rules.
func scrape(t *testing.T, address, rules, every string) prometheus {
	t.Helper()
	dir := t.TempDir()
	config := strings.Replace(scrapeConfig(t, "node-a", address), "scrape_interval: 15s",
		"scrape_interval: "+every+"\n  evaluation_interval: "+every, 1)
	write(t, filepath.Join(dir, "prometheus.yaml"), config)
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	return prometheus{"http://" + realtarget.Prometheus().StartWith(t, filepath.Join(dir, "prometheus.yaml")).Address()}
}

// alarming raises all gauges, so that most alerts have data.
func alarming(groups []metric.Group) []metric.Group {
	for _, g := range groups {
		for i := range g.Points {
			if g.Points[i].Kind == metric.Gauge {
				g.Points[i].Value += 1000
			}
		}
	}
	return groups
}

// get returns the data of an answer of the API.
func (p prometheus) get(t *testing.T, path string, values url.Values) string {
	t.Helper()
	resp, err := http.Get(p.base + path + "?" + values.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Status != "success" {
		t.Errorf("%s: %s", values, text)
	}
	return string(answer.Data)
}

// query returns the labels of the series of an answer.
func (p prometheus) query(t *testing.T, expr string) []map[string]string {
	t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	if err := json.Unmarshal([]byte(p.get(t, "/api/v1/query", url.Values{"query": {expr}})), &data); err != nil {
		t.Errorf("%s: %v", expr, err)
	}
	var series []map[string]string
	for _, r := range data.Result {
		series = append(series, r.Metric)
	}
	return series
}

// TestQueries runs every query of the dashboards and of the runbooks, and every rule, on a Prometheus that scrapes all metrics.
func TestQueries(t *testing.T) {
	t.Parallel()
	p := startPrometheus(t)
	t.Run("dashboards", func(t *testing.T) {
		for _, d := range dashboard.All() {
			for _, v := range d.Variables {
				if values := p.query(t, fmt.Sprintf("count by (%s) (%s)", v.From, substituted(d, v.Of))); len(values) == 0 {
					t.Errorf("%s: variable %s has no values", d.UID, v.Name)
				}
			}
			for _, row := range d.Rows {
				for _, panel := range row.Panels {
					for _, q := range panel.Queries {
						checkQuery(t, p, d, panel, q)
					}
				}
			}
		}
	})
	t.Run("runbooks", func(t *testing.T) {
		blocks := fenced(t, "promql")
		if len(blocks) < 20 {
			t.Errorf("only %d queries", len(blocks))
		}
		for _, expr := range blocks {
			if series := p.query(t, expr); len(series) == 0 && !strings.HasPrefix(expr, "up") {
				t.Errorf("no data for %s", expr)
			}
		}
	})
	t.Run("rules", func(t *testing.T) { checkRules(t, p) })
}

// substituted returns a query with all values of the variables, as Grafana does if the user selects nothing.
func substituted(d dashboard.Dashboard, expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "1m")
	for _, v := range d.Variables {
		expr = strings.ReplaceAll(expr, "$"+v.Name, ".*")
	}
	return expr
}

// legendLabel finds the labels that a legend names.
var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// checkQuery checks that a query has data, and the labels that its legend or its table shows.
func checkQuery(t *testing.T, p prometheus, d dashboard.Dashboard, panel dashboard.Panel, q dashboard.Query) {
	t.Helper()
	series := p.query(t, substituted(d, q.Expr))
	if len(series) == 0 {
		t.Errorf("%s: %s: no data for %s", d.UID, panel.Title, q.Expr)
		return
	}
	var names []string
	for _, m := range legendLabel.FindAllStringSubmatch(q.Legend, -1) {
		names = append(names, m[1])
	}
	for _, name := range append(names, panel.Columns...) {
		found := name == "Value"
		for _, labels := range series {
			found = found || labels[name] != ""
		}
		if !found {
			t.Errorf("%s: %s: no series has the label %s: %s", d.UID, panel.Title, name, q.Expr)
		}
	}
	if len(series) > 1 && len(names) == 0 && len(panel.Columns) == 0 {
		t.Errorf("%s: %s: %d series without a legend: %s", d.UID, panel.Title, len(series), q.Expr)
	}
}

// checkRules checks that Prometheus evaluates the rules without an error, and the texts of those that have data, which are at least six.
func checkRules(t *testing.T, p prometheus) {
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
				Alerts                  []struct{ Labels, Annotations map[string]string }
			}
		}
	}
	var active []string
	deadline := time.Now().Add(testcmd.Patience)
	for evaluated := false; !evaluated; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus does not evaluate the rules, and those with data are %s: %+v", active, data)
		}
		if err := json.Unmarshal([]byte(p.get(t, "/api/v1/rules", nil)), &data); err != nil {
			t.Fatal(err)
		}
		evaluated, active = true, nil
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				evaluated = evaluated && r.Health != "unknown"
				if len(r.Alerts) > 0 {
					active = append(active, r.Name)
				}
			}
		}
		evaluated = evaluated && len(active) >= 6
	}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" || r.LastError != "" {
				t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
			for _, a := range r.Alerts {
				for name, text := range a.Annotations {
					if text == "" || strings.Contains(text, "<no value>") || strings.Contains(text, "<error") || strings.Contains(text, "{{") {
						t.Errorf("%s: %s: %q", r.Name, name, text)
					}
				}
				if a.Labels["instance"] != "node-a" {
					t.Errorf("%s has not the name of the node: %v", r.Name, a.Labels)
				}
			}
		}
	}
}
