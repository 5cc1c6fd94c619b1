package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/allocs"
	"github.com/loupe-go/loupe/event"
)

// newAllocs returns a system whose processes allocate.
func newAllocs() *fakeSystem {
	sys := newStream()
	sys.stream.events, sys.stream.goesOn = nil, true
	begin := time.Unix(1700000000, 0)
	sums := func(n uint64) allocs.Sums { return allocs.Sums{Objects: n, Bytes: 1024 * n, Requested: 1000 * n} }
	stack := func(f string) *event.Stack {
		return &event.Stack{Frames: []event.Frame{{Func: "runtime.newobject"}, {Func: f, File: "/src/x.go", Line: 7}}}
	}
	sys.stream.allocs = allocs.Counts{
		Began: begin, Ended: begin.Add(2 * time.Second), Total: sums(100),
		Goroutines: []allocs.Goroutine{{ID: 5, Origin: event.Origin{CreatedBy: event.Frame{Func: "main.main", File: "/src/x.go", Line: 3}, Start: event.Frame{Func: "main.work"}}, Sums: sums(99)},
			{Sums: sums(1)}},
		Places: []allocs.Place{{Key: 1, Stack: stack("main.f"), Type: "main.T", Size: 1024, Sums: sums(60)},
			{Key: 2, Stack: stack("main.hostile\x1b[31m"), Type: "evil\x1b]0;\a", Size: 0, Sums: sums(30)}},
		OtherPlaces: sums(10), Lost: 2,
	}
	return sys
}

func TestAllocs(t *testing.T) {
	sys := newAllocs()
	r := run(t, sys, "allocs", "app", "--duration", "10ms")
	if r.status != exitDone {
		t.Fatalf("status %d: %s", r.status, r.errOut)
	}
	for _, want := range []string{"100 KiB in 100 objects in 2s: 50.0 KiB/s, 50 objects/s", "5 main.work", "(threads without a goroutine)", "main.main src/x.go:3",
		"main.f", "tiny", "1,024", "main.T", "(others, beyond the size of the table)"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if strings.ContainsAny(r.out, "\x1b\a") {
		t.Errorf("escapes of the program reach the terminal: %q", r.out)
	}
	if !strings.Contains(r.errOut, "at most 2 allocations were not counted") {
		t.Errorf("loss is not reported: %s", r.errOut)
	}
	if by := sys.stream.options.Allocs.By; by != loupe.AllocsByGoroutine|loupe.AllocsByPlace || !sys.stream.options.Kinds.IsEmpty() {
		t.Errorf("options %+v", sys.stream.options)
	}
}

// TestAllocsSample prints estimates.
func TestAllocsSample(t *testing.T) {
	sampled := func() *fakeSystem {
		sys := newAllocs()
		c := &sys.stream.allocs
		c.Rate, c.Samples, c.Variance = 512<<10, 1234, 5*1024*5*1024
		return sys
	}
	sys := sampled()
	r := run(t, sys, "allocs", "app", "--sample", "--duration", "10ms")
	if want := "estimated from 1,234 samples, one in 512 KiB on average; standard error 5.0 %"; r.status != exitDone || !strings.Contains(r.out, want) {
		t.Errorf("status %d, no %q in\n%s%s", r.status, want, r.out, r.errOut)
	}
	if strings.Contains(r.out, "requested") || strings.Contains(r.out, "TYPE") || !strings.Contains(r.errOut, "2 samples of allocations were lost") {
		t.Errorf("%s%s", r.out, r.errOut)
	}
	if o := sys.stream.options.Allocs; !o.Sample || o.By != 0 {
		t.Errorf("options %+v", o)
	}
	r = run(t, sampled(), "allocs", "app", "--sample", "--duration", "10ms", "--json")
	var doc struct {
		SampleBytes, Samples, StandardError float64
		ByType                              []any
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || doc.SampleBytes != 512<<10 || doc.Samples != 1234 || doc.StandardError != 5120 || doc.ByType != nil {
		t.Errorf("%v, %+v", err, doc)
	}
	if r := run(t, newAllocs(), "allocs", "app", "--sample", "--by", "size,type"); r.status != exitUsage || !strings.Contains(r.errOut, "--sample knows no types") {
		t.Errorf("status %d: %s", r.status, r.errOut)
	}
}

func TestAllocsJSON(t *testing.T) {
	sys := newAllocs()
	r := run(t, sys, "allocs", "app", "--duration", "10ms", "--json", "--by", "goroutine,creator")
	var doc struct {
		Seconds                        float64
		Bytes, Objects, Calls, Lost    uint64
		ByGoroutine, ByCreator, ByType []map[string]any
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if doc.Seconds != 2 || doc.Bytes != 102400 || doc.Objects != 100 || doc.Calls != 100 || doc.Lost != 2 || len(doc.ByGoroutine) != 2 || len(doc.ByCreator) != 2 || doc.ByType != nil {
		t.Errorf("%+v", doc)
	}
	if doc.ByGoroutine[0]["g"] != 5.0 || doc.ByGoroutine[1]["g"] != 0.0 {
		t.Errorf("goroutines %v", doc.ByGoroutine)
	}
	if sys.stream.options.Allocs.By != loupe.AllocsByGoroutine {
		t.Errorf("sums %d for tables by goroutine", sys.stream.options.Allocs.By)
	}
	r = run(t, newAllocs(), "allocs", "app", "--duration", "60ms", "--json", "--interval", "20ms", "--by", "type")
	if lines := strings.Split(strings.TrimSpace(r.out), "\n"); len(lines) < 1 || !json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[len(lines)-1])) {
		t.Errorf("%s", r.out)
	}
}

func TestAllocsUsage(t *testing.T) {
	for _, args := range [][]string{{"--by", "colour"}, {"--by", ""}, {"--interval", "-1s"}, {"--top", "-1"}, {"--duration", "-1s"}} {
		if r := run(t, newAllocs(), append([]string{"allocs", "app"}, args...)...); r.status != exitUsage {
			t.Errorf("%v: status %d: %s", args, r.status, r.errOut)
		}
	}
}

func TestProfileAllocs(t *testing.T) {
	file := t.TempDir() + "/alloc.pb.gz"
	r := run(t, newAllocs(), "profile", "app", "--type", "alloc", "-o", file, "--duration", "10ms")
	if r.status != exitDone || !strings.Contains(r.errOut, "wrote 100 KiB (100 objects) in 3 distinct stacks") || !strings.Contains(r.errOut, "at most 2 allocations") {
		t.Errorf("status %d: %s", r.status, r.errOut)
	}
	doc, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	prof, err := profile.ParseData(doc)
	if err != nil {
		t.Fatal(err)
	}
	if prof.SampleType[0].Type != "objects" || prof.SampleType[1].Unit != "bytes" || len(prof.Sample) != 3 {
		t.Fatalf("%+v", prof)
	}
	if f := prof.Sample[0].Location[0].Line[0].Function.Name; f != "main.f" || prof.Sample[0].Value[0] != 60 || prof.Sample[0].Value[1] != 60*1024 {
		t.Errorf("%s %v", f, prof.Sample[0].Value)
	}
}
