package realtarget

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
)

// Name and password of the user of miniflux.
const minifluxUser, minifluxPassword = "reader", "password"

// planMiniflux runs a feed reader that keeps its data in PostgreSQL. The load are requests of its API, some of which fail.
func planMiniflux(at *site) (*plan, error) {
	base := "http://" + at.addrs[0]
	return &plan{
		env: []string{
			"DATABASE_URL=" + at.backend, "DATABASE_MAX_CONNS=10", "LISTEN_ADDR=" + at.addrs[0], "RUN_MIGRATIONS=1",
			"CREATE_ADMIN=1", "ADMIN_USERNAME=" + minifluxUser, "ADMIN_PASSWORD=" + minifluxPassword, "LOG_LEVEL=debug", "LOG_FORMAT=json",
		},
		ready:   base + "/healthcheck",
		access:  filepath.Join(at.dir, "log"),
		connect: func(ctx context.Context) (client, error) { return newMinifluxClient(ctx, base) },
		guests:  2, loaders: 10,
	}, nil
}

// minifluxClients is the number of clients so far.
var minifluxClients atomic.Int64

// newMinifluxClient gets a token: the check of a password takes long.
func newMinifluxClient(ctx context.Context, base string) (client, error) {
	id := minifluxClients.Add(1)
	web := newWebClient()
	login := base64.StdEncoding.EncodeToString([]byte(minifluxUser + ":" + minifluxPassword))
	answer, err := exchange(ctx, web, ask{method: http.MethodPost, url: base + "/v1/api-keys", header: http.Header{"Authorization": {"Basic " + login}},
		body: fmt.Sprintf(`{"description": "client %d"}`, id), status: http.StatusCreated})
	if err != nil {
		return nil, err
	}
	var key struct{ Token string }
	if err := json.Unmarshal(answer, &key); err != nil {
		return nil, err
	}
	asks := func(n int) ask {
		a := pick(n,
			ask{method: http.MethodGet, url: base + "/v1/me", want: minifluxUser},
			ask{method: http.MethodGet, url: base + "/v1/feeds"},
			ask{method: http.MethodGet, url: base + "/v1/entries?limit=10", want: `"total"`},
			ask{method: http.MethodPost, url: base + "/v1/categories", body: fmt.Sprintf(`{"title": "%d of client %d"}`, n, id), status: http.StatusCreated},
			ask{method: http.MethodGet, url: base + "/v1/feeds/999999", status: http.StatusNotFound},
			ask{method: http.MethodGet, url: base + "/v1/entries?status=bad", status: http.StatusBadRequest})
		a.header = http.Header{"X-Auth-Token": {key.Token}}
		return a
	}
	return &webUser{web, asks}, nil
}
