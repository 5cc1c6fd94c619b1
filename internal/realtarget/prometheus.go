package realtarget

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// planPrometheus runs a Prometheus that scrapes itself. The load are queries.
func planPrometheus(at *site) (*plan, error) {
	base := "http://" + at.addrs[0]
	config := filepath.Join(at.dir, "prometheus.yml")
	text := fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs:
- job_name: self
  static_configs: [{targets: [%q]}]
`, at.addrs[0])
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return &plan{
		args: []string{
			"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(at.dir, "data"),
			"--web.listen-address=" + at.addrs[0],
		},
		pprof:   base + "/debug/pprof",
		metrics: base + "/metrics",
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
