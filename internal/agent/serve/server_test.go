package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testport"
)

// start starts a server that is closed when the test ends. An address of port 0 is enough to tell servers apart.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Metrics != "" && o.Collector == nil {
		o.Collector = NewCollector(CollectorOptions{Source: constant()})
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		select {
		case err := <-s.Failed():
			t.Error(err)
		default:
		}
	})
	return s
}

// client keeps no connections.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends a request and returns the answer.
func ask(t *testing.T, method, url string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

// TestRoutes checks what is served at each address, and that nothing else is.
func TestRoutes(t *testing.T) {
	s := start(t, Options{Metrics: "127.0.0.1:0", Health: "127.0.0.2:0", Pprof: "127.0.0.3:0"})
	same := start(t, Options{Metrics: "127.0.0.1:0", Health: "127.0.0.1:0"})
	health := start(t, Options{Health: "127.0.0.1:0"})
	for _, c := range []struct {
		addresses []string
		served    []string
	}{
		{s.Addresses()[:1], []string{"/metrics"}},
		{s.Addresses()[1:2], []string{"/healthz", "/readyz"}},
		{s.Addresses()[2:], []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/symbol"}},
		{same.Addresses(), []string{"/metrics", "/healthz", "/readyz"}},
		{health.Addresses(), []string{"/healthz", "/readyz"}},
	} {
		if len(c.addresses) != 1 {
			t.Fatalf("addresses %q for %q", c.addresses, c.served)
		}
		served := map[string]bool{}
		for _, path := range c.served {
			served[path] = true
		}
		for _, path := range []string{
			"/", "/metrics", "/metrics/", "//metrics", "/healthz", "/healthz/x", "/readyz", "/debug/pprof/", "/debug/pprof", "/debug/pprof/heap",
			"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/pprof/nothing", "/debug/vars", "/x/../metrics", "/favicon.ico",
		} {
			want := http.StatusNotFound
			if served[path] {
				want = http.StatusOK
			}
			url := "http://" + c.addresses[0] + path
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if status, body, _ := ask(t, method, url); status != want || (method == http.MethodHead) != (body == "") {
					t.Errorf("%s %s of %q: status %d, want %d; %d bytes", method, path, c.served, status, want, len(body))
				}
			}
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, "PROPFIND"} {
				if status, _, header := ask(t, method, url); status != http.StatusMethodNotAllowed || header.Get("Allow") != "GET, HEAD" {
					t.Errorf("%s %s of %q: status %d", method, path, c.served, status)
				}
			}
		}
	}
}

func TestHealth(t *testing.T) {
	var alive error
	var reasons []string
	s := start(t, Options{Health: "127.0.0.1:0", Alive: func() error { return alive }, Ready: func() []string { return reasons }})
	url := "http://" + s.Addresses()[0]
	expect := func(path string, status int, body string) {
		t.Helper()
		got, text, header := ask(t, http.MethodGet, url+path)
		if got != status || text != body || header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %q %s, want %d %q", path, got, text, header.Get("Content-Type"), status, body)
		}
	}
	expect("/healthz", http.StatusOK, "ok\n")
	expect("/readyz", http.StatusOK, "ok\n")
	alive = errors.New("the loop of targets has not turned for 1m0s")
	reasons = []string{"no target is attached", "OTLP: a\nok\xff"}
	expect("/healthz", http.StatusServiceUnavailable, "the loop of targets has not turned for 1m0s\n")
	expect("/readyz", http.StatusServiceUnavailable, "no target is attached\nOTLP: a\\x0aok\\xff\n")
	reasons = make([]string, maxReasons+7)
	if _, body, _ := ask(t, http.MethodGet, url+"/readyz"); !strings.HasSuffix(body, "\n7 more reasons\n") {
		t.Errorf("%q", body)
	}
}

// TestErrors checks that what prevents a start is one clear line, and that nothing is served then.
func TestErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used := taken.Addr().String()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	collector := NewCollector(CollectorOptions{Source: constant()})
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Metrics: "127.0.0.1:0", Health: used, Collector: collector},
			"cannot serve health checks at " + used + ": bind: address already in use (another process listens there; use another address)"},
		{Options{Metrics: "127.0.0.1:nothing", Collector: collector}, "cannot serve metrics at 127.0.0.1:nothing: "},
		{Options{Metrics: "192.0.2.1:1", Collector: collector}, "cannot serve metrics at 192.0.2.1:1: bind: cannot assign requested address"},
		{Options{Metrics: "127.0.0.1:0"}, "cannot serve metrics: no collector"},
		{Options{Health: "127.0.0.1:0", WebConfig: filepath.Join(dir, "none")}, "cannot use the web configuration " + dir + "/none: open "},
		{Options{Health: "127.0.0.1:0", WebConfig: file("unknown", "a: 1\nb: 2\n")}, "cannot use the web configuration " + dir + "/unknown: yaml: "},
		{Options{Health: "127.0.0.1:0", WebConfig: file("tls", "tls_server_config: {cert_file: c, key_file: k}\n")},
			"cannot use the web configuration " + dir + "/tls: failed to read cert_file"},
		{Options{Metrics: "127.0.0.1:0", Pprof: "127.0.0.1:0", Collector: collector}, "cannot serve pprof at 127.0.0.1:0: metrics or health"},
		{Options{Pprof: "0.0.0.0:0"}, "cannot serve pprof at 0.0.0.0:0: other machines can connect"},
		{Options{Pprof: ":0"}, "cannot serve pprof at :0: other machines can connect"},
		{Options{Pprof: "0.0.0.0:0", WebConfig: file("open", "tls_server_config: {}\n")}, "cannot serve pprof at 0.0.0.0:0: other machines"},
	} {
		s, err := Start(c.o)
		if err == nil {
			s.Close(t.Context())
			t.Errorf("%+v started, want %q", c.o, c.want)
			continue
		}
		if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %q, want %q", c.o, err, c.want)
		}
	}
}

// TestNothingServedAfterError checks that an address that could be opened is free after another one could not be.
func TestNothingServedAfterError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := testport.Address(t)
	o := Options{Metrics: address, Health: taken.Addr().String(), Collector: NewCollector(CollectorOptions{Source: constant()})}
	if s, err := Start(o); err == nil {
		s.Close(t.Context())
		t.Fatal("it started")
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("the address of metrics is still served")
	}
}

// users is a web configuration with a user, whose password is secret.
const users = "basic_auth_users: {scraper: $2a$04$oUCab6aih8UQcY3ka.eIpOwfouytDYZeRvz2nmRHoz0WaqNYD5FbO}\n"

// TestAuthentication checks to which addresses a web configuration applies, also while it changes.
func TestAuthentication(t *testing.T) {
	config := filepath.Join(t.TempDir(), "web.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(users)
	status := func(address, path, password string) int {
		t.Helper()
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		url := "http://127.0.0.1:" + port + path
		if password != "" {
			url = "http://scraper:" + password + "@127.0.0.1:" + port + path
		}
		code, _, _ := ask(t, http.MethodGet, url)
		return code
	}
	open := start(t, Options{Metrics: "127.0.0.1:0", Health: "127.0.0.2:0", Pprof: "0.0.0.0:0", WebConfig: config}).Addresses()
	open[1] = strings.Replace(open[1], "127.0.0.2", "127.0.0.1", 1)
	for _, address := range []struct{ address, path string }{{open[0], "/metrics"}, {open[2], "/debug/pprof/cmdline"}} {
		got := []int{status(address.address, address.path, ""), status(address.address, address.path, "wrong"),
			status(address.address, address.path, "secret")}
		if fmt.Sprint(got) != "[401 401 200]" {
			t.Errorf("%s without, with a wrong and the right password: %v", address.path, got)
		}
	}
	secured := start(t, Options{Health: "127.0.0.1:0", WebConfig: config, SecureHealth: true}).Addresses()
	if status(secured[0], "/healthz", "") != http.StatusUnauthorized || status(secured[0], "/healthz", "secret") != http.StatusOK {
		t.Error("health checks are not secured")
	}
	write("tls_server_config: {}\n")
	if status(open[0], "/metrics", "") != http.StatusOK || status(open[2], "/debug/pprof/cmdline", "") != http.StatusForbidden {
		t.Error("without users: metrics are public as configured, pprof never is")
	}
}

// TestHealthIsPublic checks that probes of the kubelet need no password.
func TestHealthIsPublic(t *testing.T) {
	config := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(config, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Metrics: "127.0.0.1:0", Health: "127.0.0.2:0", WebConfig: config})
	if status, _, _ := ask(t, http.MethodGet, "http://"+s.Addresses()[1]+"/healthz"); status != http.StatusOK {
		t.Error(status)
	}
}

// TestReopen closes a server during a scrape, which is answered, and opens its address again.
func TestReopen(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	source := func(context.Context) []metric.Group {
		close(started)
		<-release
		return nil
	}
	s, err := Start(Options{Metrics: "127.0.0.1:0", Collector: NewCollector(CollectorOptions{Source: source})})
	if err != nil {
		t.Fatal(err)
	}
	address := s.Addresses()[0]
	var wg sync.WaitGroup
	wg.Go(func() {
		if status, body, _ := ask(t, http.MethodGet, "http://"+address+"/metrics"); status != http.StatusOK ||
			!strings.Contains(body, metric.SeriesDropped.Name) {
			t.Errorf("the scrape during the end: %d", status)
		}
	})
	<-started
	closed := make(chan error, 1)
	go func() { closed <- s.Close(context.Background()) }()
	for { // until it no longer accepts connections
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		c.Close()
	}
	close(release)
	wg.Wait()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for range 3 {
		again, err := Start(Options{Health: address})
		if err != nil {
			t.Fatal(err)
		}
		if status, _, _ := ask(t, http.MethodGet, "http://"+address+"/healthz"); status != http.StatusOK {
			t.Error(status)
		}
		if err := again.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseInTime closes a server whose request does not end.
func TestCloseInTime(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	s, err := Start(Options{Health: "127.0.0.1:0", Alive: func() error { close(started); <-release; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if answer, err := client.Get("http://" + s.Addresses()[0] + "/healthz"); err == nil {
			answer.Body.Close()
			t.Error("the request was answered")
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err == nil || !strings.Contains(err.Error(), "closed health checks at") {
		t.Errorf("close: %v", err)
	}
	wg.Wait()
	close(release)
}

// TestMaxScrapes checks that scrapes beyond the maximum are refused and do not pile up.
func TestMaxScrapes(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	source := func(context.Context) []metric.Group {
		close(started)
		<-release
		return nil
	}
	s := start(t, Options{Metrics: "127.0.0.1:0", MaxScrapes: 1, Collector: NewCollector(CollectorOptions{Source: source, MinAge: time.Hour})})
	url := "http://" + s.Addresses()[0] + "/metrics"
	var wg sync.WaitGroup
	wg.Go(func() {
		if status, _, _ := ask(t, http.MethodGet, url); status != http.StatusOK {
			t.Errorf("the first scrape: %d", status)
		}
	})
	<-started
	if status, _, _ := ask(t, http.MethodGet, url); status != http.StatusServiceUnavailable {
		t.Errorf("the second scrape: %d", status)
	}
	close(release)
	wg.Wait()
	if status, _, _ := ask(t, http.MethodGet, url); status != http.StatusOK {
		t.Errorf("the scrape after the first: %d", status)
	}
}

// TestMaxConnections checks that a connection beyond the maximum is served only after another one was closed.
func TestMaxConnections(t *testing.T) {
	var closed atomic.Bool
	var early atomic.Int64
	s := start(t, Options{Health: "127.0.0.1:0", MaxConnections: 1, Ready: func() []string {
		if !closed.Load() {
			early.Add(1)
		}
		return nil
	}})
	address := s.Addresses()[0]
	first, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	// An answer shows that the connection was accepted. It stays open.
	if _, err := fmt.Fprintf(first, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", address) // the kernel accepts it
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := fmt.Fprintf(second, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // in which a server without the limit answers; one with it passes however short it is
	closed.Store(true)
	first.Close()
	if text, err := io.ReadAll(second); err != nil || !strings.HasSuffix(string(text), "ok\n") {
		t.Errorf("%q, %v", text, err)
	}
	if early.Load() != 0 {
		t.Error("the second connection was served while the first was open")
	}
}

// TestHeaderLimit checks that a request with large headers is refused.
func TestHeaderLimit(t *testing.T) {
	s := start(t, Options{Health: "127.0.0.1:0"})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addresses()[0]+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(answer.Status)
	}
	for _, e := range s.endpoints {
		if h := e.server; h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout <= 0 || h.IdleTimeout <= 0 {
			t.Errorf("%s has no time limit", e.what)
		}
	}
}
