package config

import (
	"reflect"
	"testing"
)

// TestDescription checks that all keys are described, and that their defaults are possible.
func TestDescription(t *testing.T) {
	keys, variables := 0, map[string]string{}
	root().walk(reflect.ValueOf(Default()).Elem(), func(f *field, v reflect.Value) {
		keys++
		if f.env != "" {
			if other := variables[f.env]; other != "" {
				t.Errorf("%s and %s have the same environment variable", f.path, other)
			}
			variables[f.env] = f.path
		}
		if f.kind == mapping && (f.format == nil || f.format.names == nil) {
			t.Errorf("%s: the names have no format", f.path)
		}
		if root().find(f.path) != f {
			t.Errorf("%s is not found", f.path)
		}
		if f.kind == override || f.def == "" {
			return
		}
		again, err := f.fromText(f.def)
		if err != nil || !reflect.DeepEqual(again.Interface(), v.Interface()) {
			t.Errorf("%s: %v, %v", f.path, again, err)
		}
	})
	if keys < 60 {
		t.Errorf("only %d keys", keys)
	}
}

func TestValues(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"budget.memory", "512MiB", "512MiB"},
		{"budget.memory", "1.5GiB", "1536MiB"},
		{"budget.memory", "100 MB", "100000000"},
		{"budget.memory", "64Mi", "64MiB"},
		{"budget.buffer_bytes", "16777216", "16MiB"},
		{"budget.buffer_bytes", "5000B", "5000"},
		{"alerts.stalled", "90s", "1m30s"},
		{"alerts.stalled", "1h0m", "1h"},
		{"alerts.stalled", "0s", "0s"},
		{"alerts.stalled", "1.5ms", "1.5ms"},
		{"sampling.min_ratio", "5%", "0.05"},
		{"sampling.min_ratio", "0.5", "0.5"},
		{"tracing.profiles", " cpu ,, heap", "[cpu, heap]"},
		{"tracing.profiles", "", "[]"},
		{"targets.labels", "b=%2C,a=", `{a: "", b: ","}`},
		{"node", "1", `"1"`},
	} {
		f := root().find(test.path)
		v, err := f.fromText(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		} else if got := f.render(v); got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
	for _, test := range []struct{ path, text, want string }{
		{"budget.memory", "1MiB", `must be 32MiB to 1TiB, is "1MiB"`},
		{"budget.memory", "9999999999 TiB", `must be a number of bytes, or a size such as 512MiB, is "9999999999 TiB"`},
		{"budget.memory", "Inf", `must be a number of bytes, or a size such as 512MiB, is "Inf"`},
		{"sampling.min_ratio", "NaN", `must be a number, or a percentage such as 1%, is "NaN"`},
		{"alerts.goroutine_growth", "5%", `must be a number, is "5%"`},
		{"alerts.stalled", "9999999h", `must be a duration with a unit, such as 500ms, 5s or 1m30s, is "9999999h"`},
		{"targets.labels", "a", `element 1 must have the form NAME=VALUE, with percent-encoded characters`},
		{"tracing.overrides", "x", `can only be set in the configuration file`},
	} {
		if _, err := root().find(test.path).fromText(test.text); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v, want %s", test.text, err, test.want)
		}
	}
}
