package instrumentation

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/spans"
)

// TestConfig reads options and the environment.
func TestConfig(t *testing.T) {
	handler := WithHandler(func(*spans.Span) {})
	below, err := filepath.Abs("below/it")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		env     map[string]string
		options []Option
		err     string
		pids    []int
		exes    []string
	}{
		{name: "nothing", err: "no process is selected"},
		{name: "no destination", options: []Option{WithPID(7)}, err: "spans have no destination"},
		{name: "no process", options: []Option{handler, WithEnv()}, err: "set OTEL_GO_AUTO_TARGET_EXE"},
		{name: "invalid process", options: []Option{handler, WithPID(-1)}, err: "process ID -1 is invalid"},
		{name: "itself", options: []Option{handler, WithPID(os.Getpid())}, err: "cannot observe itself"},
		{name: "invalid executable", options: []Option{handler, WithExe("12")}, err: "use WithPID"},
		{name: "empty executable", options: []Option{handler, WithExe("")}, err: "must be a path"},
		{name: "invalid engine", options: []Option{handler, WithPID(7), WithEngine("steam")}, err: "unknown engine"},
		{name: "map without breakdown", options: []Option{handler, WithPID(7), WithProfilerMap(""), WithoutBreakdown()}, err: "exclude each other"},
		{name: "map with inline", options: []Option{handler, WithPID(7), WithProfilerMap(""), WithEngine(loupe.EngineInline)}, err: "requires engine uprobe"},
		{name: "options", options: []Option{handler, WithPID(8, 7), WithPID(7), WithExe("below/it"), WithExe("orders")}, pids: []int{7, 8}, exes: []string{below, "orders"}},
		{name: "environment", env: map[string]string{"OTEL_GO_AUTO_TARGET_EXE": "/bin/orders", "OTEL_GO_AUTO_TARGET_PID": "7, 9"}, options: []Option{WithEnv()},
			pids: []int{7, 9}, exes: []string{"/bin/orders"}},
		{name: "precedence", env: map[string]string{"OTEL_GO_AUTO_TARGET_EXE": "/bin/orders"}, options: []Option{WithPID(7), WithEnv()}, pids: []int{7}},
		{name: "without the environment", env: map[string]string{"OTEL_GO_AUTO_TARGET_PID": "x"}, options: []Option{WithPID(7), handler}, pids: []int{7}},
		{name: "invalid list", env: map[string]string{"OTEL_GO_AUTO_TARGET_PID": "7,x"}, options: []Option{WithEnv()}, err: "OTEL_GO_AUTO_TARGET_PID=7,x is invalid"},
		{name: "invalid export", env: map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, options: []Option{WithEnv(), WithPID(7)}, err: "zipkin"},
		{name: "disabled", env: map[string]string{"OTEL_SDK_DISABLED": "true"}, options: []Option{WithEnv()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := newConfig(c.options, func(name string) (string, bool) { text, ok := c.env[name]; return text, ok })
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(got.pids, c.pids) || !slices.Equal(got.exes, c.exes) {
				t.Errorf("%v %q, %v; want %v %q", got.pids, got.exes, err, c.pids, c.exes)
			}
		})
	}
}

// TestPrecedence compares options with the environment.
func TestPrecedence(t *testing.T) {
	env := map[string]string{"OTEL_TRACES_SAMPLER": "always_off", "OTEL_SDK_DISABLED": "true"}
	lookup := func(name string) (string, bool) { text, ok := env[name]; return text, ok }
	c, err := newConfig([]Option{WithPID(7), WithEnv(), WithHandler(func(*spans.Span) {})}, lookup)
	if err != nil || c.sampler.Description() != sdktrace.NeverSample().Description() || c.disabled || c.exports != nil {
		t.Errorf("%+v, %v", c, err)
	}
	env["OTEL_SDK_DISABLED"] = ""
	for text, want := range map[string]bool{"": false, "true": false, "false": true, "what": false} {
		env["OTEL_GO_AUTO_INCLUDE_DB_STATEMENT"] = text
		if c, err := newConfig([]Option{WithPID(7), WithEnv()}, lookup); err != nil || c.noQueryText != want {
			t.Errorf("statements %q: without their text %v, want %v (%v)", text, c.noQueryText, want, err)
		}
		parse := map[string]string{"OTEL_GO_AUTO_PARSE_DB_STATEMENT": text}
		c, err := newConfig([]Option{WithPID(7), WithEnv()}, func(name string) (string, bool) { value, ok := parse[name]; return value, ok })
		if err != nil || c.noParsing != want || c.noQueryText {
			t.Errorf("statements %q: not parsed %v, want %v (%v)", text, c.noParsing, want, err)
		}
	}
	c, err = newConfig([]Option{WithSampler(sdktrace.AlwaysSample()), WithPID(7), WithEnv()}, lookup)
	if err != nil || c.sampler.Description() != sdktrace.AlwaysSample().Description() || c.exports == nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestAddSpans checks that no number is missing in a sum.
func TestAddSpans(t *testing.T) {
	var one, sum loupe.SpanCounts
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Struct {
				fill(f)
			} else {
				f.SetUint(1)
			}
		}
	}
	fill(reflect.ValueOf(&one).Elem())
	addSpans(&sum, one)
	if sum != one {
		t.Errorf("%+v, want %+v", sum, one)
	}
}
