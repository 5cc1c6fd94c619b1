package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestSecrets looks for the value of a header in all that is printed.
func TestSecrets(t *testing.T) {
	const secret = "hush"
	var out bytes.Buffer
	check := func(what string) {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%s prints the secret: %s", what, &out)
		}
		out.Reset()
	}
	for _, environ := range [][]string{nil, {"OTEL_EXPORTER_OTLP_HEADERS=authorization=hush"}} {
		doc := "output: {otlp: {endpoint: 'x:1', headers: {authorization: hush}}}"
		if environ != nil {
			doc = "output: {otlp: {endpoint: 'x:1'}}"
		}
		c := mustLoad(t, doc, environ)
		if v, _ := c.OTEL("OTEL_EXPORTER_OTLP_HEADERS"); v != "authorization=hush" {
			t.Fatalf("the header is missing: %q", v)
		}
		if err := c.Print(&out); err != nil || !strings.Contains(out.String(), "authorization") {
			t.Errorf("%v, %s", err, &out)
		}
		check("Print")
		h := c.Output.OTLP.Headers
		fmt.Fprintf(&out, "%v %+v %#v %s %q %x", c.Output, c.Output, h, h, h, h)
		check("fmt")
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "headers", c.Output.OTLP.Headers)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "headers", c.Output.OTLP.Headers, "one", c.Output.OTLP.Headers["authorization"])
		check("slog")
		fmt.Fprint(&out, Diff(Default(), c))
		check("Diff")
	}
	for _, doc := range []string{"output: {otlp: {headers: {a: [hush]}}}", "output: {otlp: {headers: [hush]}}", "output: {otlp: {headers: {a: \"hush\\r\"}}}",
		"output: {otlp: {headers: !x hush}}", "output: {otlp: {headers: {a: {b: hush}}}}",
		"output: {endpoint: 'https://me:hush@x'}", "output: {endpoint: !x 'https://me:hush@x'}", "output: {otlp: {endpoint: [hush]}}"} {
		_, err := loadText(t, doc, nil)
		fmt.Fprint(&out, err)
		check(doc)
	}
	_, err := loadText(t, "", []string{"OTEL_EXPORTER_OTLP_HEADERS=a b=hush,hush"})
	fmt.Fprint(&out, err)
	check("environment")
	_, err = loadText(t, "", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=https://me:hush@x", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=me:hush@x"},
		Flag{"--set output.otlp.endpoint", "output.otlp.endpoint", "me:hush@x"})
	fmt.Fprint(&out, err)
	check("endpoint")
}

// TestPrint loads what is printed.
func TestPrint(t *testing.T) {
	c, err := Source{File: "testdata/ebpf-tracer.yaml", Environ: []string{"NODE_NAME=true", "OTEL_EXPORTER_OTLP_HEADERS=a=%28hidden%29",
		"OTEL_TRACES_SAMPLER=always_on", "OTEL_SERVICE_NAME=x"},
		Flags: []Flag{{"--set x", "targets.labels", "app=*web%22%C3%A9"}, {"--listen", "output.prometheus.listen", "[::1]:9"}}}.Load()
	if err != nil {
		t.Fatal(err)
	}
	c.Tracing.Overrides = mustLoad(t, "tracing: {overrides: [{match: {users: [0, a], labels: {a: '*'}}, profiles: [], sampling: {min_ratio: 0.5}, engine: inline}]}", nil).Tracing.Overrides
	var out bytes.Buffer
	if err := c.Print(&out); err != nil {
		t.Fatal(err)
	}
	again := mustLoad(t, out.String(), nil)
	if changes := Diff(c, again); len(changes) > 0 {
		t.Errorf("%v\n%s", changes, &out)
	}
	for _, line := range []string{
		`node: "true"                                # environment: NODE_NAME`,
		`    batch_size: 1000                        # testdata/ebpf-tracer.yaml:23`,
		`    listen: "[::1]:9"                       # --listen`,
		`  profile_interval: 1m`,
		`# other variables of OpenTelemetry: OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER`,
		`  exclude_pods: ["kube-*", "calico-*"]      # testdata/ebpf-tracer.yaml:6`,
		`    - {match: {users: ["0", a], labels: {a: "*"}}, profiles: [], engine: inline, sampling: {min_ratio: 0.5}}`,
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("missing %s in\n%s", line, &out)
		}
	}
}

func TestDiff(t *testing.T) {
	a := mustLoad(t, "targets: {pids: []}\ntracing: {overrides: [{match: {pids: [1]}, spans: true}]}", []string{"NODE_NAME=a"})
	b := mustLoad(t, `
node: b
sampling: {min_ratio: 5%}
output: {otlp: {endpoint: "x:1", headers: {a: b}}}
tracing: {overrides: [{match: {pids: [1]}, spans: false}, {match: {pids: [2]}, engine: inline}]}
health: {listen: ":1"}
`, nil)
	var got []string
	for _, c := range Diff(a, b) {
		got = append(got, fmt.Sprint(c, " ", c.Restart))
	}
	want := []string{
		`node: b, was a true`,
		`tracing.overrides[0]: {match: {pids: [1]}, spans: false}, was {match: {pids: [1]}, spans: true} false`,
		`tracing.overrides[1]: {match: {pids: [2]}, engine: inline}, was nothing false`,
		`sampling.min_ratio: 0.05, was 0.01 false`,
		`output.otlp.endpoint: "x:1", was "" false`,
		`output.otlp.headers: {a: "(hidden)"}, was {} false`,
		`health.listen: ":1", was ":8080" true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if changes := Diff(b, b); len(changes) > 0 {
		t.Error(changes)
	}
}
