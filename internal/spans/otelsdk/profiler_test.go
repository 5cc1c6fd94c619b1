package otelsdk_test

import (
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProfilerMap checks that the map of a profiler has the spans that the program makes itself, for requests of HTTP and gRPC of several
// processes. Until the SDK makes them, it has other ones.
func TestProfilerMap(t *testing.T) {
	testtarget.Whole(t, "the map of a profiler with the SDK")
	for _, v := range []version{versions[0], versions[len(versions)-1]} {
		spec := testtarget.Spec{Program: "chain", Go: v.release, Tags: v.tags, Flags: "-modfile=" + v.modfile}
		t.Run(spec.String(), func(t *testing.T) { testProfiler(t, spec) })
	}
}

func testProfiler(t *testing.T, spec testtarget.Spec) {
	opt := loupe.Options{Spans: loupe.SpanOptions{ProfilerMap: spanstest.ProfilerPath(t)}}
	c := start(t, spec, "", opt)
	var profilers []*spanstest.Profiler
	for _, p := range c.processes {
		profilers = append(profilers, spanstest.SampleProfiler(t, p.PID(), opt.Spans.ProfilerMap))
	}
	const n = 60
	for range n {
		c.get("stored-1", "")
	}
	made, _ := c.take(11 * n)
	reported := map[trace.SpanID]bool{}
	for _, s := range made {
		reported[s.Context.SpanID()] = true
	}
	own, early := 0, 0
	for _, p := range profilers {
		samples := slices.DeleteFunc(p.Stop(), func(s spanstest.ProfilerSample) bool {
			if !s.Span.IsValid() || reported[s.Span] {
				return false
			}
			early++
			return !strings.HasPrefix(p.Func(&s), "database/sql.") // the span of the program has begun there
		})
		for s, n := range spanstest.CheckProfiler(t, samples, made) {
			own += n
			if !s.Exported {
				t.Errorf("samples have span %s, which the program does not export", s.Name)
			}
		}
	}
	t.Logf("%d samples have spans of the program, %d others", own, early)
	if own == 0 || early > own/4 {
		t.Errorf("%d samples have spans of the program, %d others", own, early)
	}
}
