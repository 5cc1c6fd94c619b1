package otelapi_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/nethttp"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// A version is one of the module's, with Go releases that build it, the newest one besides.
type version struct {
	name     string
	releases []string
}

var versions = []version{
	{"1.0", []string{"1.19.13", "1.23.12"}},
	{"1.19", []string{"1.20.14", "1.24.13"}},
	{"1.32", []string{"1.22.12", "1.25.14"}},
	{"1.33", []string{"1.22.12", "1.25.14"}},
	{"1.47", []string{"1.26.11"}},
}

// spec returns how the target is built with a version.
func (v version) spec(release string, stripped bool) testtarget.Spec {
	return testtarget.Spec{Program: "narrator", Go: release, Stripped: stripped, Flags: "-modfile=otel-" + v.name + ".mod"}
}

// each runs a test with each version and each build, or if LOUPE_RELEASES does not choose all releases with the newest ones. Engine
// inline reports spans on arm64 only: see TestInline.
func each(t *testing.T, test func(t *testing.T, o *observed)) {
	list := versions
	if !testtarget.Requested() {
		list = list[len(list)-1:]
		t.Log(testtarget.LeftOut + "versions of OpenTelemetry other than the newest")
	}
	engines := []loupe.Engine{loupe.EngineUprobe}
	if runtime.GOARCH != testtarget.AMD64 {
		engines = append(engines, loupe.EngineInline)
	}
	for _, v := range list {
		for _, b := range testtarget.Variants(t, v.releases...) {
			spec := v.spec(b.Go, b.Stripped)
			spanstest.Run(t, spec, engines, func(t *testing.T, engine loupe.Engine) {
				test(t, observe(t, testtarget.Start(t, testtarget.Build(t, spec)), engine))
			})
		}
	}
}

// observed is a session with a target.
type observed struct {
	*spanstest.Session
	t      *testing.T
	target *testtarget.Process
	url    string
}

func observe(t *testing.T, target *testtarget.Process, engine loupe.Engine) *observed {
	t.Helper()
	o := &observed{t: t, target: target, url: "http://" + strings.Fields(target.Command("address"))[1]}
	o.Session = spanstest.Attach(t, target.PID(), loupe.Options{Engine: engine})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return o
}

// get sends a request for a path, and returns the spans that it makes, and the one of the request.
func (o *observed) get(path string, n int) (own []*spans.Span, request *spans.Span) {
	o.t.Helper()
	resp, err := http.Get(o.url + path)
	if err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	for _, s := range o.Take(n + 1) {
		if s.Library == nethttp.Library && s.Kind == trace.SpanKindServer {
			request = s
			continue
		}
		own = append(own, s)
	}
	if len(own) != n || request == nil {
		o.t.Fatalf("%s: %d spans, want %d in a request: %q", path, len(own), n, describe(own, own))
	}
	return own, request
}

// describe returns what spans say, and their parents among others, sorted.
func describe(list, among []*spans.Span) []string {
	var all []string
	for _, s := range list {
		text := fmt.Sprintf("%s %s %s", s.Library, s.Kind, s.Name)
		if s.Status != codes.Unset {
			text += fmt.Sprintf(" %s %q", s.Status, s.Message)
		}
		for _, a := range s.Attributes {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
		}
		if s.Ending != spans.Returned {
			text += fmt.Sprintf(" ending %d", s.Ending)
		}
		if s.Rule != spans.RuleRoot {
			i := slices.IndexFunc(among, func(p *spans.Span) bool {
				return p.Context.SpanID() == s.Parent.SpanID() && p.Context.TraceID() == s.Context.TraceID()
			})
			if i < 0 {
				text += " in an unknown parent"
			} else {
				text += fmt.Sprintf(" in %s by %s", among[i].Name, s.Rule)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// expect requests a path and compares the spans. The first word of each is the library: "own" and "other" are the tracers.
func (o *observed) expect(path string, want ...string) {
	o.t.Helper()
	own, request := o.get(path, len(want))
	for i, text := range want {
		library, rest, _ := strings.Cut(text, " ")
		want[i] = map[string]string{"own": "loupe.test/narrator", "other": "loupe.test/other"}[library] + " " + rest
	}
	slices.Sort(want)
	if got := describe(own, append(slices.Clone(own), request)); !slices.Equal(got, want) {
		o.t.Errorf("%s:\n%s\nwant\n%s", path, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range own {
		if !s.Own || s.Work != nil || s.End < s.Start || s.Start < request.Start {
			o.t.Errorf("%s: %+v", path, s)
		}
	}
}

// complete checks that nothing was lost or misunderstood.
func (o *observed) complete(open uint64) {
	o.t.Helper()
	c, err := o.SpanCounts()
	if err != nil {
		o.t.Fatal(err)
	}
	if c.Open != open || c.Strays != 0 || c.Mismatched != 0 || c.Unobserved != 0 || c.Notes.Lost != 0 || c.Notes.NotRead != 0 || c.Notes.Impossible != 0 || c.Notes.Garbled != 0 {
		o.t.Errorf("counts: %+v", c)
	}
}
