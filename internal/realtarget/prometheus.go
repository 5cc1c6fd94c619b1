package realtarget

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Prometheus returns the Prometheus of Debian, for tests that have their own configuration: its path is the second argument of
// [Spec.StartWith]. [Process.Address] is the address of the API.
func Prometheus() Spec {
	return Spec{"prometheus", Debian{"prometheus", "usr/bin/prometheus"}, planPrometheus}
}

// Promtool returns the tool that checks configurations and rules of Prometheus.
func Promtool() Spec { return Spec{Name: "promtool", Source: Debian{"prometheus", "usr/bin/promtool"}} }

// planPrometheus runs a Prometheus that scrapes itself, unless it is given another configuration. The load are queries.
func planPrometheus(at *site) (*plan, error) {
	base := "http://" + at.addrs[0]
	config := cmp.Or(at.backend, filepath.Join(at.dir, "prometheus.yml"))
	text := fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
- job_name: self
  static_configs: [{targets: [%q]}]
`, at.addrs[0])
	if at.backend == "" {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return &plan{
		args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(at.dir, "data"),
			"--web.listen-address=" + at.addrs[0],
		},
		pprof:   base + "/debug/pprof",
		metrics: base + "/metrics",
		serves:  at.addrs[0],
		connect: webUsers(func(n int) ask {
			now := time.Now().Unix()
			return pick(n,
				ask{method: http.MethodGet, url: base + "/api/v1/query?query=up", want: `"success"`},
				ask{method: http.MethodGet, url: fmt.Sprintf(
					"%s/api/v1/query_range?query=count({__name__=~%%22.%%2B%%22})&start=%d&end=%d&step=1",
					base, now-60, now), want: `"success"`},
				ask{method: http.MethodGet, url: base + "/api/v1/series?match[]={job=%22self%22}", want: `"success"`},
				ask{method: http.MethodGet, url: base + "/metrics", want: "go_goroutines"})
		}),
		guests: 3, loaders: 3,
	}, nil
}
