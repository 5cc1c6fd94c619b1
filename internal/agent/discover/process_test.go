package discover

import (
	"strings"
	"testing"
)

// TestVariables reads environments.
func TestVariables(t *testing.T) {
	long := strings.Repeat("x", maxVariable)
	for _, test := range []struct {
		env, name, attributes string
		clipped               bool
	}{
		{"", "", "", false},
		{"A=b\x00OTEL_SERVICE_NAME=shop\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00", "shop", "a=b", false},
		{"OTEL_SERVICE_NAME=\x00", "", "", false},
		{"OTEL_SERVICE_NAME\x00OTEL_SERVICE_NAMES=x\x00", "", "", false},
		{"OTEL_SERVICE_NAME=first\x00OTEL_SERVICE_NAME=second\x00", "first", "", false},
		{"OTEL_SERVICE_NAME=unfinished", "", "", false},
		{"OTEL_SERVICE_NAME=" + long + "\x00", long, "", false},
		{"OTEL_SERVICE_NAME=" + long + "x\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00", "", "a=b", true},
		{"OTEL_SERVICE_NAME=shop\x00" + strings.Repeat("A=b\x00", maxEnviron/4), "shop", "", true},
		{strings.Repeat("A=b\x00", maxEnviron/4) + "OTEL_SERVICE_NAME=shop\x00", "", "", true},
		{strings.Repeat("x", 2*maxEnviron), "", "", true},
	} {
		name, attributes, clipped := variables(strings.NewReader(test.env))
		if name != test.name || attributes != test.attributes || clipped != test.clipped {
			t.Errorf("%.40q: %.40q, %.40q, %t; want %.40q, %.40q, %t", test.env, name, attributes, clipped, test.name, test.attributes, test.clipped)
		}
	}
}

func FuzzVariables(f *testing.F) {
	f.Add("A=b\x00OTEL_SERVICE_NAME=shop\x00OTEL_RESOURCE_ATTRIBUTES=a=b\x00")
	f.Fuzz(func(t *testing.T, env string) {
		name, attributes, _ := variables(strings.NewReader(env))
		if len(name) > maxVariable || len(attributes) > maxVariable || strings.Contains(name+attributes, "\x00") {
			t.Errorf("%q, %q", name, attributes)
		}
	})
}

// TestGenerations keeps what was used last, and no more than its size.
func TestGenerations(t *testing.T) {
	const size = 10
	g := newGenerations[int, int](size)
	g.put(-1, -1)
	for i := range 100 {
		g.put(i, 2*i)
		if v, ok := g.get(-1); !ok || v != -1 {
			t.Fatalf("%d: the value that is used was dropped", i)
		}
		if v, ok := g.get(i); !ok || v != 2*i {
			t.Fatalf("%d: %d, %t", i, v, ok)
		}
		if n := len(g.newer) + len(g.old); n > size {
			t.Fatalf("%d: %d values", i, n)
		}
	}
	if _, ok := g.get(0); ok {
		t.Error("0 was kept")
	}
}
