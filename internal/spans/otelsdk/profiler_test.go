package otelsdk_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/spans/spanstest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProfilerMap checks that the map of a profiler has the spans that the program makes itself, for requests of HTTP and gRPC of several
// processes. Until the SDK makes them, it has other ones.
func TestProfilerMap(t *testing.T) {
	list := versions
	if !testtarget.Complete() {
		list = list[len(list)-1:]
	}
	for _, v := range list {
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
	known, unknown := 0, 0
	for _, p := range profilers {
		inside := slices.DeleteFunc(p.Stop(), func(s spanstest.ProfilerSample) bool { return !strings.HasPrefix(p.Func(&s), "database/sql.") })
		for s, n := range spanstest.CheckProfiler(t, inside, made) {
			known += n
			if !s.Exported {
				t.Errorf("samples have span %s, which the program does not export", s.Name)
			}
		}
		for _, s := range inside {
			if !s.Span.IsValid() {
				unknown++
			}
		}
	}
	t.Logf("%d samples in database/sql, %d more without a span", known, unknown)
	if known == 0 || unknown > known/2 {
		t.Errorf("%d samples have a span, %d have none", known, unknown)
	}
}
