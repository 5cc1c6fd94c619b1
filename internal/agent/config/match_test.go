package config

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestOtherTracerMatches has the processes that the patterns of the source document select.
func TestOtherTracerMatches(t *testing.T) {
	c, err := Source{File: "testdata/ebpf-tracer.yaml", Environ: []string{"TARGET_NAMESPACE=production"}}.Load()
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[*Subject]bool{
		{Exe: "/app/server", Namespace: "production", Pod: "web-1"}:          true,
		{Exe: "/app/bin/server", Namespace: "production", Pod: "web-1"}:      true,
		{Exe: "/usr/local/bin/x", Namespace: "production", Pod: "web-1"}:     true,
		{Exe: "/app", Namespace: "production", Pod: "web-1"}:                 false,
		{Exe: "/application/x", Namespace: "production", Pod: "web-1"}:       false,
		{Exe: "/app/server", Namespace: "production", Pod: "kube-proxy-abc"}: false,
		{Exe: "/app/server", Namespace: "staging", Pod: "web-1"}:             false,
		{Exe: "/app/server"}: false,
	} {
		if d := c.Decide(*s); d.Observe != want {
			t.Errorf("%+v: %+v", *s, d)
		}
	}
	if d := Default().Decide(Subject{PID: 1, Exe: "/x", UID: -1}); !d.Observe || d.Reason != "" {
		t.Errorf("a process is not observed without any setting: %+v", d)
	}
}

func TestMatches(t *testing.T) {
	web := Subject{PID: 7, Exe: "/app/bin/web", User: "www-data", UID: 33, Namespace: "prod", Pod: "web-5f-abc",
		Labels: map[string]string{"app": "web", "empty": ""}}
	host := Subject{PID: 8, Exe: "/usr/bin/hostd", UID: 0}
	for _, test := range []struct {
		match     string
		web, host bool
	}{
		{"{}", true, true},
		{"{include_namespaces: [prod]}", true, false},
		{"{include_namespaces: ['*']}", true, false},
		{"{include_namespaces: [pro]}", false, false},
		{"{include_namespaces: [staging, 'p?o[a-d]']}", true, false},
		{"{exclude_namespaces: ['*']}", false, true},
		{"{exclude_namespaces: [staging]}", true, true},
		{"{include_pods: [web-*]}", true, false},
		{"{exclude_pods: [web-*]}", false, true},
		{"{exclude_pods: [web]}", true, true},
		{"{include_namespaces: [prod], exclude_pods: ['*-abc']}", false, false},
		{"{binary_patterns: [/app/*]}", true, false},
		{"{binary_patterns: [/app/bin/web]}", true, false},
		{"{binary_patterns: [/app]}", false, false},
		{"{binary_patterns: [app/*]}", false, false},
		{"{binary_patterns: ['*']}", true, true},
		{"{binary_patterns: [web]}", true, false},
		{"{binary_patterns: ['*d']}", false, true},
		{"{binary_patterns: ['*/bin/*']}", true, true},
		{"{binary_patterns: ['/app?bin?web']}", true, false},
		{"{binary_patterns: ['/app[^a]bin/web']}", true, false},
		{"{binary_patterns: [\"/app/b\\\\in/*\"]}", true, false},
		{"{pids: [8, 9]}", false, true},
		{"{users: [www-data]}", true, false},
		{"{users: [33]}", true, false},
		{"{users: [0]}", false, true},
		{"{users: [root]}", false, false},
		{"{labels: {app: web}}", true, false},
		{"{labels: {app: 'w*', empty: ''}}", true, false},
		{"{labels: {app: 'w*', other: '*'}}", false, false},
		{"{labels: {empty: '*'}}", true, false},
		{"{pids: [7], users: [0]}", false, false},
	} {
		c := mustLoad(t, "targets: "+test.match, nil)
		if c.Targets.Matches(web) != test.web || c.Targets.Matches(host) != test.host {
			t.Errorf("%s: %v, %v", test.match, c.Targets.Matches(web), c.Targets.Matches(host))
		}
	}
	if m := (&Match{Users: []string{"-1"}, BinaryPatterns: []string{"*"}}); m.Matches(Subject{UID: -1}) {
		t.Error("an unknown user and an unknown executable match")
	}
}

func TestDecide(t *testing.T) {
	c := mustLoad(t, `
targets:
  include_namespaces: [prod]
  exclude_pods: [kube-*]
tracing:
  profiles: [cpu]
  overrides:
  - match: {labels: {app: web}}
    spans: true
    engine: inline
    profiles: [heap]
    sampling: {events_per_second: 50}
  - match: {include_pods: [web-2]}
    engine: uprobe
    max_stack_depth: 64
    profiles: []
    sampling: {events_per_second: 70, min_ratio: 1}
`, nil)
	pod := func(name string, annotations ...string) Subject {
		s := Subject{Namespace: "prod", Pod: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}}
		for _, a := range annotations {
			k, v, _ := strings.Cut(a, "=")
			s.Annotations["loupe.dev/"+k] = v
		}
		return s
	}
	elsewhere := pod("web-1", "observe=true")
	elsewhere.Namespace = "staging"
	for _, test := range []struct {
		subject  Subject
		observe  bool
		reason   string
		engine   string
		spans    bool
		depth    int
		rate     int
		profiles string
		warnings string
	}{
		{Subject{}, false, "targets.include_namespaces", "uprobe", false, 32, 2000, "cpu", ""},
		{pod("web-1"), true, "", "inline", true, 32, 50, "heap", ""},
		{pod("web-2"), true, "", "uprobe", true, 64, 70, "", ""},
		{pod("web-2", "engine=inline", "spans=false"), true, "", "inline", false, 64, 70, "", ""},
		{pod("web-1", "observe=false"), false, "annotation loupe.dev/observe", "inline", true, 32, 50, "heap", ""},
		{elsewhere, true, "annotation loupe.dev/observe", "inline", true, 32, 50, "heap", ""},
		{pod("kube-proxy", "observe=true"), false, "targets.exclude_pods", "inline", true, 32, 50, "heap", ""},
		{pod("web-1", "observe=no", "engine=ptrace\x1b", "spans= TRUE "), true, "", "inline", true, 32, 50, "heap",
			"annotation loupe.dev/observe: must be true or false, is \"no\"; ignored\n" +
				`annotation loupe.dev/engine: must be uprobe or inline, is "ptrace\x1b"; ignored`},
	} {
		d := c.Decide(test.subject)
		if d.Observe != test.observe || d.Reason != test.reason || d.Tracing.Engine != test.engine || d.Tracing.Spans != test.spans ||
			d.Tracing.MaxStackDepth != test.depth || d.Sampling.EventsPerSecond != test.rate || d.Sampling.MaxTargetOverhead != 0.01 ||
			(d.Sampling.MinRatio == 1) != (test.rate == 70) ||
			strings.Join(d.Tracing.Profiles, ",") != test.profiles || strings.Join(d.Warnings, "\n") != test.warnings {
			t.Errorf("%+v:\ngot  %+v\nwant %+v", test.subject, d, test)
		}
	}
	d := c.Decide(pod("web-1"))
	d.Tracing.Profiles[0] = "mine"
	if c.For(pod("web-1")).Profiles[0] != "heap" {
		t.Error("decisions share a list")
	}
	c = mustLoad(t, "kubernetes: {annotations: [spans]}", nil)
	if d := c.Decide(pod("a", "observe=false", "engine=inline", "spans=true")); !d.Observe || d.Tracing.Engine != "uprobe" || !d.Tracing.Spans {
		t.Errorf("annotations that are not respected: %+v", d)
	}
}

// FuzzGlob compares the patterns that the schema permits with those that path.Match understands.
func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"*", "/app/*", "[a-z]", "[^a-]", "[]a]", "[a", "\\", "a\\*", "[\\]]", "[--a]", "[^]", "]"} {
		f.Add(seed, "/app/x")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		_, ok := glob.check(pattern)
		ok = ok && utf8.ValidString(pattern)
		_, err := path.Match(pattern, name)
		if ok && err != nil {
			t.Errorf("%q: %v", pattern, err)
		}
		if ok && !strings.ContainsAny(pattern, `*?[\`) && !matchGlob(pattern, pattern) {
			t.Errorf("%q does not match itself", pattern)
		}
	})
}
