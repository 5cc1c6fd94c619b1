package realtarget

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// planRegistry runs a registry of container images that keeps what it knows of blobs in Redis. The load reads and looks for blobs.
func planRegistry(at *site) (*plan, error) {
	config := filepath.Join(at.dir, "config.yml")
	text := fmt.Sprintf(`{version: 0.1, log: {level: warn, accesslog: {disabled: false}},
	storage: {inmemory: {}, cache: {blobdescriptor: redis}, delete: {enabled: true}},
	http: {addr: %q, secret: loads, debug: {addr: %q, prometheus: {enabled: true, path: /metrics}}},
	redis: {addrs: [%q], poolsize: 20}}`, at.addrs[0], at.addrs[1], at.backend)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return &plan{
		args:    []string{"serve", config},
		env:     []string{"OTEL_TRACES_EXPORTER=none"},
		pprof:   "http://" + at.addrs[1] + "/debug/pprof",
		ready:   "http://" + at.addrs[0] + "/v2/",
		metrics: "http://" + at.addrs[1] + "/metrics",
		access:  filepath.Join(at.dir, "log"),
		connect: func(ctx context.Context) (client, error) { return newRegistryUser(ctx, "http://"+at.addrs[0]) },
		guests:  2, loaders: 10,
	}, nil
}

// registryUsers is the number of clients so far: each has a repository of its own.
var registryUsers atomic.Int64

type registryUser struct {
	webUser
	repository string // its URL
	blob       string
}

// newRegistryUser uploads a blob.
func newRegistryUser(ctx context.Context, base string) (client, error) {
	n := registryUsers.Add(1)
	u := &registryUser{webUser: webUser{web: newWebClient()}, repository: fmt.Sprintf("%s/v2/team/user-%d", base, n), blob: fmt.Sprintf("blob of user %d", n)}
	u.asks = u.ask
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.repository+"/blobs/uploads/", nil)
	if err != nil {
		return nil, err
	}
	resp, err := u.web.Do(req)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	upload := resp.Header.Get("Location") + "&digest=" + u.digest()
	_, err = exchange(ctx, u.web, ask{method: http.MethodPut, url: upload, body: u.blob, status: http.StatusCreated})
	return u, err
}

func (u *registryUser) digest() string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(u.blob)))
}

func (u *registryUser) ask(n int) ask {
	return pick(n,
		ask{method: http.MethodGet, url: u.repository + "/blobs/" + u.digest(), want: u.blob},
		ask{method: http.MethodHead, url: u.repository + "/blobs/" + u.digest()},
		ask{method: http.MethodGet, url: u.repository + "/blobs/sha256:" + strings.Repeat("0", 64), status: http.StatusNotFound},
		ask{method: http.MethodGet, url: u.repository + "/tags/list", status: http.StatusNotFound},
		ask{method: http.MethodPost, url: u.repository + "/blobs/uploads/", status: http.StatusAccepted},
		ask{method: http.MethodDelete, url: u.repository + "/manifests/none", status: http.StatusNotFound},
		ask{method: http.MethodGet, url: u.repository + "/nothing", status: http.StatusNotFound})
}
