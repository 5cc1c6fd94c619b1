package router_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of a router's, with Go releases that build it, the newest one besides.
type version struct {
	name, tag string
	releases  []string
	few       bool // it is also tested if LOUPE_RELEASES does not choose all releases
}

var versions = []version{
	{"", "std", []string{"1.19.13", "1.20.14", "1.21.13", "1.22.12", "1.23.12", "1.24.13", "1.25.14", "1.26.11"}, false},
	{"std-1.19", "std", []string{"1.24.13"}, false},
	{"mux-1.4", "mux", []string{"1.19.13", "1.23.12"}, false},
	{"mux-1.7", "mux", []string{"1.19.13", "1.23.12"}, false},
	{"mux-1.8", "mux", []string{"1.20.14", "1.23.12"}, true},
	{"chi-4.0", "chi4", []string{"1.19.13", "1.23.12"}, false},
	{"chi-1.5", "chi4", []string{"1.19.13", "1.23.12"}, false},
	{"chi-5.0", "chi5", []string{"1.19.13", "1.23.12"}, false},
	{"chi-5.5", "chi5", []string{"1.24.13", "1.26.11"}, false},
	{"gin-1.5", "gin", []string{"1.19.13", "1.23.12"}, false},
	{"gin-1.9", "gin", []string{"1.20.14", "1.24.13"}, false},
	{"gin-1.12", "gin", []string{"1.25.14", "1.26.11"}, false},
	{"echo-4.1", "echo4", []string{"1.19.13", "1.23.12"}, false},
	{"echo-4.9", "echo4", []string{"1.19.13", "1.23.12"}, false},
	{"echo-4.16", "echo4", []string{"1.25.14", "1.26.11"}, false},
	{"echo-5.3", "echo5", []string{"1.25.14", "1.26.11"}, false},
	{"echo-5.4", "echo5", []string{"1.25.14", "1.26.11"}, true},
}

// spec returns how the target is built with a version.
func (v version) spec(release string, stripped bool) testtarget.Spec {
	s := testtarget.Spec{Program: "signpost", Go: release, Stripped: stripped, Tags: v.tag}
	if v.name != "" {
		s.Flags = "-modfile=" + v.name + ".mod"
	}
	return s
}

// each runs a test with each engine, each version and each build.
func each(t *testing.T, test func(t *testing.T, v version, o *observed)) {
	for _, v := range versions {
		if !testtarget.Requested() && !v.few {
			t.Logf(testtarget.LeftOut+"%s", v.spec("", true))
			continue
		}
		for _, b := range testtarget.Variants(t, v.releases...) {
			spec := v.spec(b.Go, b.Stripped)
			spanstest.Run(t, spec, spanstest.Engines(), func(t *testing.T, engine loupe.Engine) {
				test(t, v, observe(t, testtarget.Start(t, testtarget.Build(t, spec)), engine))
			})
		}
	}
}

// observed is a session with a target.
type observed struct {
	*spanstest.Session
	t          *testing.T
	plain, tls string // addresses
	client     *http.Client
}

func observe(t *testing.T, target *testtarget.Process, engine loupe.Engine) *observed {
	t.Helper()
	words := strings.Fields(target.Command("address"))
	o := &observed{t: t, plain: "http://" + words[1], tls: "https://" + words[2]}
	o.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}}
	o.Session = spanstest.Attach(t, target.PID(), loupe.Options{Engine: engine})
	t.Cleanup(o.client.CloseIdleConnections)
	for _, w := range o.Warnings() {
		if w.Kind != event.WarnTimes && w.Kind != event.WarnState { // not every machine has a reliable counter, or is idle
			t.Errorf("warning: %s", w)
		}
	}
	return o
}

// send sends a request, and returns the status of the response, or 0, and the route in it.
func (o *observed) send(method, url, way string) (int, string) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		o.t.Error(err)
		return 0, ""
	}
	req.Header.Set("Way", way)
	resp, err := o.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("Route")
}

// describe returns what the span of a request says.
func describe(s *spans.Span) string {
	route, status := "", "0"
	for _, a := range s.Attributes {
		switch a.Key {
		case "http.route":
			route += " " + a.Value.String()
		case "http.response.status_code":
			status = a.Value.String()
		}
	}
	text := fmt.Sprintf("%s %q%s %s", s.Kind, s.Name, route, status)
	if s.Ending == spans.Panicked {
		text += " panicked"
	}
	return text
}

// expected returns what describe is to return for a request.
func expected(method, route string, status int) string {
	if route == "" {
		return fmt.Sprintf("%s %q %d", trace.SpanKindServer, method, status)
	}
	return fmt.Sprintf("%s %q %s %d", trace.SpanKindServer, method+" "+route, route, status)
}

// routes are the routes of paths, which depend on the router.
func routes(tag string) map[string]string {
	id := "{id}"
	switch tag {
	case "std":
		return map[string]string{"/hello": "/hello", "/items/7": "/items/", "/files/a/b": "/files/", "/api/v1/users/9": "/api/v1/users/", "/deep/3": "/deep/",
			"/spawn/5": "/spawn/", "/inner/things": "/inner/things"}
	case "gin", "echo4", "echo5":
		id = ":id"
	}
	m := map[string]string{"/hello": "/hello", "/items/7": "/items/" + id, "/api/v1/users/9": "/api/v1/users/" + id, "/deep/3": "/deep/" + id,
		"/spawn/5": "/spawn/" + id, "/inner/things": "/inner/things"}
	switch tag {
	case "mux":
		m["/files/a/b"], m["/items/7"] = "/files/", "/items/{id:[0-9]+}"
		m["/long/abc/7"] = "/long/{name}/{id}" // without a pattern that has 450 bytes
	case "gin":
		m["/files/a/b"] = "/files/*path"
	default:
		m["/files/a/b"] = "/files/*"
	}
	return m
}

// check sends a request, and compares its span.
func (o *observed) check(method, base, path, way, route string, status int) {
	o.t.Helper()
	got, known := o.send(method, base+path, way)
	if got != status {
		o.t.Errorf("%s %s by way %q: status %d, want %d", method, path, way, got, status)
	}
	if known != "" && known != route {
		o.t.Errorf("%s %s by way %q: the router knows the route %q, not %q", method, path, way, known, route)
	}
	want := expected(method, route, status)
	if status == 0 {
		want += " panicked"
	}
	for _, s := range o.Take(1) {
		if got := describe(s); got != want {
			o.t.Errorf("%s %s%s by way %q: %s, want %s", method, base[:5], path, way, got, want)
		}
	}
}

// complete checks that nothing was lost or misunderstood.
func (o *observed) complete() {
	o.t.Helper()
	c, err := o.SpanCounts()
	if err != nil {
		o.t.Fatal(err)
	}
	if c.Begun != c.Ended || c.Strays != 0 || c.Mismatched != 0 || c.Unobserved != 0 || c.Notes.Lost != 0 || c.Routes.Lost != 0 || c.Routes.NotRead != 0 ||
		c.Routes.Unreadable != 0 || c.Routes.Impossible != 0 || c.Routes.Full != 0 || c.Routes.Garbled != 0 {
		o.t.Errorf("counts: %+v", c)
	}
}

// TestRoutes sends requests to each route in each way.
func TestRoutes(t *testing.T) {
	each(t, func(t *testing.T, v version, o *observed) {
		for path, route := range routes(v.tag) {
			for _, base := range []string{o.plain, o.tls} {
				for _, way := range []string{"", "mux", "timeout", "copy"} {
					o.check("GET", base, path, way, route, 200)
				}
			}
		}
		for _, base := range []string{o.plain, o.tls} {
			o.check("GET", base, "/missing", "", "", 404)
			o.check("GET", base, "/api/v1/missing", "", "", 404)
			o.check("GET", base, "/recovered", "", "/recovered", 500)
			o.check("GET", base, "/hello", "abandon", "", 503)
			o.check("GET", base, "/hello", "release", "/hello", 200)
			o.client.CloseIdleConnections() // a request that fails on a connection that was used before is repeated
			panicked := ""
			if slices.Contains([]string{"std", "mux", "echo5"}, v.tag) {
				panicked = "/panic"
			}
			o.check("GET", base, "/panic", "", panicked, 0)
		}
		switch v.tag {
		case "std":
			o.check("POST", o.plain, "/hello", "", "/hello", 200)
		case "mux":
			if v.name == "mux-1.4" {
				o.check("POST", o.plain, "/hello", "", "", 404)
				break
			}
			o.check("POST", o.plain, "/hello", "", "", 405)
		case "gin":
			o.check("POST", o.plain, "/hello", "", "", 404)
		case "chi4", "chi5", "echo4":
			o.check("POST", o.plain, "/hello", "", "", 405)
		}
		o.complete()
	})
}

// TestParallel sends requests at the same time.
func TestParallel(t *testing.T) {
	const clients, requests = 50, 8
	each(t, func(t *testing.T, v version, o *observed) {
		known := routes(v.tag)
		var paths []string
		for path := range known {
			paths = append(paths, path)
		}
		slices.Sort(paths)
		want := map[string]int{}
		var all sync.WaitGroup
		for i := range clients {
			for j := range requests {
				path := paths[(i+j)%len(paths)]
				want[expected("GET", known[path], 200)+" "+path]++
			}
			all.Go(func() {
				for j := range requests {
					o.send("GET", []string{o.plain, o.tls}[i%2]+paths[(i+j)%len(paths)], []string{"", "mux", "timeout", "copy"}[i%4])
				}
			})
		}
		all.Wait()
		for _, s := range o.Take(clients * requests) {
			path := ""
			for _, a := range s.Attributes {
				if a.Key == "url.path" {
					path = a.Value.String()
				}
			}
			want[describe(s)+" "+path]--
		}
		for text, n := range want {
			if n != 0 {
				t.Errorf("%d more spans wanted: %s", n, text)
			}
		}
		o.complete()
	})
}
