package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A server is a public server, and what it is asked.
type server struct {
	name, module, version string
	pkg                   string // of the main package in the module: "" or "/cmd/server"
	requests              int    // of the load in a round
	messages              int    // in each request
	// arguments writes the configuration, and returns the arguments of the server.
	arguments func(at *site) ([]string, error)
	ready     func(ctx context.Context, at *site) error
	answers   func(ctx context.Context, at *site) ([]answer, error)
	connect   func(ctx context.Context, at *site) (user, error)
	noise     string // a regular expression of lines of output that depend on the speed of the machine
}

// A site is where a server runs: its directory, and the addresses "127.0.0.1:port" that it listens at.
type site struct {
	dir   string
	addrs [3]string
}

// An answer is what a server has answered to a request, without what differs each time.
type answer struct{ request, text string }

// A user is a client with a connection.
type user interface {
	request(ctx context.Context, n int) error // sends the n-th request and checks the answer
	close()
}

var servers = []*server{
	{
		name: "caddy", module: "github.com/caddyserver/caddy/v2", version: "v2.11.9", pkg: "/cmd/caddy", requests: 5000, messages: 1,
		arguments: caddyArguments,
		ready:     webReady("/page", ""),
		answers:   webAnswers(caddyAsks),
		connect:   connectWeb(func(n int) ask { return pick(n, caddyLoad...) }),
	},
	{
		name: "etcd", module: "go.etcd.io/etcd/server/v3", version: "v3.7.3", requests: 5000, messages: 1,
		arguments: etcdArguments,
		ready:     webReady("/version", "not_decided"),
		answers:   webAnswers(etcdAsks),
		connect: connectWeb(func(n int) ask {
			key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "load-%d", n/2%1000))
			return pick(n, etcdPut(key, key), etcdRange(key))
		}),
		noise: "took too long|slow fdatasync|heartbeat|ReadIndex|server closed",
	},
	{
		name: "registry", module: "github.com/distribution/distribution/v3", version: "v3.1.2", pkg: "/cmd/registry", requests: 2500, messages: 1,
		arguments: registryArguments,
		ready:     webReady("/v2/", ""),
		answers:   registryAnswers,
		connect:   connectWeb(func(n int) ask { return pick(n, registryLoad...) }),
	},
	{
		name: "nats-server", module: "github.com/nats-io/nats-server/v2", version: "v2.15.2", requests: 12500, messages: natsBatch,
		arguments: natsArguments,
		ready:     natsReady,
		answers:   natsAnswers,
		connect:   dialNats,
	},
}

// caddyArguments configures a page, a directory of files, and a proxy to the page.
func caddyArguments(at *site) ([]string, error) {
	files, config := filepath.Join(at.dir, "files"), filepath.Join(at.dir, "caddy.json")
	text := fmt.Sprintf(`{"admin": {"listen": %q}, "apps": {"http": {"servers": {"site": {"listen": [%q], "automatic_https": {"disable": true}, "routes": [
	{"match": [{"path": ["/page"]}], "handle": [{"handler": "static_response", "body": "the page"}]},
	{"match": [{"path": ["/proxy"]}], "handle": [{"handler": "rewrite", "uri": "/page"}, {"handler": "reverse_proxy", "upstreams": [{"dial": %q}]}]},
	{"handle": [{"handler": "encode", "encodings": {"gzip": {}}}, {"handler": "file_server", "root": %q, "browse": {}}]}
	]}}}}}`, at.addrs[1], at.addrs[0], at.addrs[0], files)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := os.Mkdir(files, 0o755); err != nil {
		return nil, err
	}
	file := filepath.Join(files, "file.txt")
	if err := os.WriteFile(file, bytes.Repeat([]byte("a line of the file\n"), 500), 0o644); err != nil {
		return nil, err
	}
	// The times are in answers.
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return []string{"run", "--config", config}, errors.Join(os.Chtimes(file, then, then), os.Chtimes(files, then, then))
}

var caddyLoad = []ask{{path: "/page"}, {path: "/proxy"}, {path: "/file.txt"}}

var caddyAsks = append([]ask{
	{path: "/file.txt", header: http.Header{"Accept-Encoding": {"gzip"}}},
	{path: "/file.txt", header: http.Header{"Range": {"bytes=10-99"}}},
	{path: "/file.txt", header: http.Header{"If-Modified-Since": {"Thu, 01 Jan 2026 00:00:00 GMT"}}},
	{path: "/file.txt", method: http.MethodHead},
	{path: "/file.txt", method: http.MethodPost, body: "text"},
	{path: "/"}, {path: "/nothing"}, {path: "/../../etc/passwd"}, {path: "/file.txt/"},
	{path: "/config/", addr: 1}, {path: "/config/apps/http/nothing", addr: 1},
	{path: "/load", addr: 1, method: http.MethodPost, body: "{"},
	{path: "/reverse_proxy/upstreams", addr: 1},
}, caddyLoad...)

func etcdArguments(at *site) ([]string, error) {
	base, peer := "http://"+at.addrs[0], "http://"+at.addrs[1]
	return []string{
		"--name=one", "--data-dir=" + filepath.Join(at.dir, "data"), "--listen-client-urls=" + base, "--advertise-client-urls=" + base,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=one=" + peer,
	}, nil
}

func etcdPut(key, value string) ask {
	return ask{method: http.MethodPost, path: "/v3/kv/put", body: fmt.Sprintf(`{"key":%q,"value":%q}`, key, value)}
}

func etcdRange(key string) ask {
	return ask{method: http.MethodPost, path: "/v3/kv/range", body: fmt.Sprintf(`{"key":%q}`, key)}
}

// etcdAsks use keys of their own: "a", "b" and "c" in base64.
var etcdAsks = []ask{
	{path: "/version"}, {path: "/health"}, {path: "/nothing"},
	etcdPut("YQ==", "MQ=="), etcdPut("Yg==", "Mg=="), etcdRange("YQ=="), etcdRange("Yw=="),
	{method: http.MethodPost, path: "/v3/kv/range", body: `{"key":"YQ==","range_end":"eg==","count_only":true}`},
	{method: http.MethodPost, path: "/v3/kv/txn", body: `{"compare":[{"key":"YQ==","target":"VALUE","result":"EQUAL","value":"MQ=="}],` +
		`"success":[{"request_put":{"key":"Yw==","value":"Mw=="}}],"failure":[{"request_range":{"key":"YQ=="}}]}`},
	{method: http.MethodPost, path: "/v3/lease/grant", body: `{"TTL":600,"ID":77}`},
	{method: http.MethodPost, path: "/v3/lease/grant", body: `{"TTL":600,"ID":77}`},
	{method: http.MethodPost, path: "/v3/lease/revoke", body: `{"ID":77}`},
	{method: http.MethodPost, path: "/v3/kv/deleterange", body: `{"key":"YQ=="}`},
	{method: http.MethodPost, path: "/v3/kv/compaction", body: `{"revision":3}`},
	{method: http.MethodPost, path: "/v3/kv/range", body: `{"key":"YQ==","revision":2}`},
	{method: http.MethodPost, path: "/v3/cluster/member/list", body: `{}`},
	{method: http.MethodPost, path: "/v3/maintenance/alarm", body: `{}`},
	{method: http.MethodPost, path: "/v3/auth/status", body: `{}`},
	{method: http.MethodPost, path: "/v3/kv/put", body: `{"key":`},
	{method: http.MethodPost, path: "/v3/kv/put", body: `{}`},
}

func registryArguments(at *site) ([]string, error) {
	config := filepath.Join(at.dir, "config.yml")
	text := fmt.Sprintf(`{version: 0.1, log: {level: warn, accesslog: {disabled: true}}, storage: {inmemory: {}, delete: {enabled: true}},
	http: {addr: %q, secret: servers, draintimeout: 10s, debug: {addr: %q}}}`, at.addrs[0], at.addrs[1])
	return []string{"serve", config}, os.WriteFile(config, []byte(text), 0o644)
}

const (
	registryBlob     = "the blob"
	registryManifest = "application/vnd.oci.image.manifest.v1+json"
)

var (
	registryDigest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(registryBlob)))
	registryPath   = "/v2/team/image/blobs/" + registryDigest
)

var registryLoad = []ask{
	{path: registryPath}, {path: registryPath, method: http.MethodHead},
	{path: "/v2/team/image/blobs/sha256:" + strings.Repeat("0", 64), status: http.StatusNotFound},
	{path: "/v2/team/image/tags/list"},
	{path: "/v2/team/image/manifests/latest", header: http.Header{"Accept": {registryManifest}}},
}

// registryAnswers uploads a blob and a manifest, which the load also reads.
func registryAnswers(ctx context.Context, at *site) ([]answer, error) {
	location, err := uploadAt(ctx, at, "/v2/team/image/blobs/uploads/")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`,
		registryManifest, registryDigest, len(registryBlob))
	asks := append([]ask{
		{method: http.MethodPut, path: location + "&digest=" + registryDigest, name: "upload", body: registryBlob},
		{method: http.MethodPut, path: "/v2/team/image/manifests/latest", header: http.Header{"Content-Type": {registryManifest}}, body: text},
		{method: http.MethodPut, path: "/v2/team/image/manifests/bad", header: http.Header{"Content-Type": {registryManifest}}, body: "{"},
		{path: "/v2/"}, {path: "/v2/_catalog"}, {path: "/nothing"}, {path: "/v2/UPPER/tags/list"},
		{path: registryPath, header: http.Header{"Range": {"bytes=0-2"}}},
		{path: "/v2/team/image/manifests/none"}, {method: http.MethodDelete, path: "/v2/team/image/manifests/none"},
		{path: "/debug/health", addr: 1},
	}, registryLoad...)
	return webAnswers(asks)(ctx, at)
}
