package nethttp_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/spans"
)

// specs returns builds of program tandem: the newest version of golang.org/x/net, which calls net/http since Go 1.27, and one that does
// not; or all of them.
func specs(t *testing.T) []testtarget.Spec {
	t.Helper()
	build := func(version, release string, stripped bool) testtarget.Spec {
		return testtarget.Spec{Program: "tandem", Go: release, Stripped: stripped, Flags: "-modfile=net-" + version + ".mod"}
	}
	list := []testtarget.Spec{build("0.62", testtarget.Latest(), true), build("0.35", testtarget.Latest(), true)}
	if !testtarget.Requested() {
		return list
	}
	for _, b := range []struct{ version, release string }{{"0.62", "1.26.11"}, {"0.35", "1.23.12"}, {"0.4", "1.19.13"}, {"0.4", testtarget.Latest()}} {
		list = append(list, build(b.version, b.release, false))
		list = append(list, testtarget.EachOr(t, []testtarget.Spec{build(b.version, b.release, true)}, func(testtarget.Spec) bool { return false })...)
	}
	return append(list, build("0.62", testtarget.Latest(), false))
}

// A tandem is a process of the program that is observed.
type tandem struct {
	*spanstest.Session
	t          *testing.T
	plain, tls string // addresses
	client     *http.Client
	propagates bool
}

func observe(t *testing.T, spec testtarget.Spec, engine loupe.Engine) *tandem {
	t.Helper()
	target := testtarget.Start(t, testtarget.Build(t, spec))
	words := strings.Fields(target.Command("address"))
	o := &tandem{t: t, plain: "http://" + words[1], tls: "https://" + words[2], propagates: engine == loupe.EngineInline}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	o.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: protocols}}
	opt := loupe.Options{Engine: engine}
	if o.propagates {
		opt.Spans.Propagation = &loupe.Propagation{}
	}
	o.Session = spanstest.Attach(t, target.PID(), opt)
	t.Cleanup(o.client.CloseIdleConnections)
	for _, w := range o.Warnings() {
		t.Log(w)
	}
	return o
}

// take waits for n spans, of which there must be no more.
func (o *tandem) take(n int) []*spans.Span {
	o.t.Helper()
	list := o.Take(n)
	if len(list) != n {
		o.t.Fatalf("%d spans, want %d: %q", len(list), n, describe(list))
	}
	return list
}

// describe returns what spans say and their parents, sorted.
func describe(list []*spans.Span) []string {
	var all []string
	for _, s := range list {
		text := fmt.Sprint(s.Kind, " ", s.Name)
		for _, key := range []string{"url.full", "http.response.status_code", "network.protocol.version", "url.scheme", "error.type"} {
			for _, a := range s.Attributes {
				if string(a.Key) == key {
					text += fmt.Sprintf(" %s", a.Value.String())
				}
			}
		}
		if s.Status == codes.Error {
			text += " failed"
		}
		if s.Ending != spans.Returned {
			text += fmt.Sprintf(" ending %d", s.Ending)
		}
		if s.Rule != spans.RuleRoot {
			text += " by " + string(s.Rule)
			if i := slices.IndexFunc(list, func(p *spans.Span) bool {
				return p.Context.SpanID() == s.Parent.SpanID() && p.Context.TraceID() == s.Context.TraceID()
			}); i >= 0 {
				text += fmt.Sprintf(" in %s %s", list[i].Kind, list[i].Name)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// get sends a request, and returns the response.
func (o *tandem) get(url string, header ...string) string {
	o.t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func each(t *testing.T, test func(t *testing.T, o *tandem)) {
	for _, spec := range specs(t) {
		for _, engine := range []loupe.Engine{loupe.EngineUprobe, loupe.EngineInline} {
			t.Run(fmt.Sprintf("%s/%s", engine, spec), func(t *testing.T) {
				if engine == loupe.EngineUprobe && os.Getuid() != 0 {
					t.Skip("eBPF requires root")
				}
				test(t, observe(t, spec, engine))
			})
		}
	}
}

// TestModule serves and sends requests by golang.org/x/net/http2.
func TestModule(t *testing.T) {
	each(t, func(t *testing.T, o *tandem) {
		for scheme, base := range map[string]string{"http": o.plain, "https": o.tls} {
			for path, want := range map[string]string{"/hello": "server GET /hello 200 2 " + scheme, "/status/404": "server GET /status/ 404 2 " + scheme,
				"/status/503": "server GET /status/ 503 2 " + scheme + " 503 failed", "/none": "server GET 404 2 " + scheme,
				"/panic": "server GET /panic 2 " + scheme + " failed ending 1"} {
				o.get(base + path)
				if got := describe(o.take(1)); got[0] != want {
					t.Errorf("%s: %s, want %s", path, got[0], want)
				}
			}
			o.get(base+"/hello", "traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			if s := o.take(1)[0]; s.Rule != spans.RuleHeader || s.Parent.SpanID().String() != "b7ad6b7169203331" {
				t.Errorf("parent %v by rule %q", s.Parent, s.Rule)
			}
			o.checkSent(base, scheme)
		}
		c, err := o.SpanCounts()
		if err != nil || c.Mismatched+c.Strays+c.Unobserved+c.NoHeader+c.Notes.Lost+c.Notes.Garbled > 0 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// checkSent has a server send requests to itself.
func (o *tandem) checkSent(base, scheme string) {
	o.t.Helper()
	const n = 20
	for how, rule := range map[string]spans.Rule{"plain": spans.RuleCreator, "direct": spans.RuleCreator, "configured": spans.RuleCreator, "pooled": spans.RuleContext, "own": spans.RuleCreator} {
		answer := o.get(fmt.Sprintf("%s/send?n=%d&as=%s", base, n, how))
		if want := strconv.Itoa(map[bool]int{true: n}[o.propagates || how == "own"]); answer != want {
			o.t.Errorf("%s: %q traceparent headers, want %s", how, answer, want)
		}
		to, toScheme := o.plain, "http"
		if how == "direct" || how == "configured" {
			to, toScheme = o.tls, "https"
		}
		received := "server GET /received 200 2 " + toScheme
		if o.propagates || how == "own" {
			received += " by header in client GET"
		}
		sent := fmt.Sprintf("client GET %s/received 200 2 by %s in server GET /send", to, rule)
		if how == "own" { // the span is the program's own, in the trace that its header has
			sent = strings.TrimSuffix(sent, " in server GET /send")
		}
		want := slices.Concat(slices.Repeat([]string{sent}, n), slices.Repeat([]string{received}, n), []string{"server GET /send 200 2 " + scheme})
		slices.Sort(want)
		if got := describe(o.take(2*n + 1)); !slices.Equal(got, want) {
			o.t.Errorf("%s:\n%s\nwant\n%s", how, strings.Join(slices.Compact(got), "\n"), strings.Join(slices.Compact(want), "\n"))
		}
	}
	o.get(base + "/send?n=1&as=refused")
	if got := describe(o.take(2)); !strings.HasPrefix(got[0], "client GET https://127.0.0.1:1/received") || !strings.HasSuffix(got[0], "failed by creator in server GET /send") {
		o.t.Errorf("refused: %q", got)
	}
}
