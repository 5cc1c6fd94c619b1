package realtarget

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// planCaddy runs a Caddy with a page, a file and a proxy to itself, and asks for
// all three.
func planCaddy(at *site) (*plan, error) {
	admin, site := at.addrs[0], at.addrs[1]
	config := filepath.Join(at.dir, "caddy.json")
	files := filepath.Join(at.dir, "files")
	access := filepath.Join(at.dir, "access.log")
	text := fmt.Sprintf(`{"admin": {"listen": %q},
	"logging": {"logs": {"access": {"writer": {"output": "file", "filename": %q}, "include": ["http.log.access"]}}},
	"apps": {"http": {"servers": {"site": {
	"listen": [%q], "automatic_https": {"disable": true}, "logs": {},
	"routes": [
		{"match": [{"path": ["/page"]}], "handle": [{"handler": "static_response", "body": "the page"}]},
		{"match": [{"path": ["/proxy"]}], "handle": [
			{"handler": "rewrite", "uri": "/page"},
			{"handler": "reverse_proxy", "upstreams": [{"dial": %q}]}]},
		{"handle": [{"handler": "encode", "encodings": {"gzip": {}}}, {"handler": "file_server", "root": %q}]}
	]}}}}}`, admin, access, site, site, files)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := os.Mkdir(files, 0o755); err != nil {
		return nil, err
	}
	content := strings.Repeat("a line of the file\n", 5000)
	if err := os.WriteFile(filepath.Join(files, "file.txt"), []byte(content), 0o644); err != nil {
		return nil, err
	}
	return &plan{
		args:    []string{"run", "--config", config},
		pprof:   "http://" + admin + "/debug/pprof",
		metrics: "http://" + admin + "/metrics",
		access:  access,
		connect: webUsers(func(n int) ask {
			return pick(n,
				ask{method: http.MethodGet, url: "http://" + site + "/page", want: "the page"},
				ask{method: http.MethodGet, url: "http://" + site + "/proxy", want: "the page"},
				ask{method: http.MethodGet, url: "http://" + site + "/file.txt", want: content})
		}),
		guests: 3, loaders: 3,
	}, nil
}
