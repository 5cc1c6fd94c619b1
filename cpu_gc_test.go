package loupe_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	cpuperf "github.com/loupe-go/loupe/internal/perf"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/tracetruth"
)

// gcSampler is a sampler with or without eBPF.
type gcSampler interface {
	Start() error
	Stop() error
	Drain(f func(*cpuperf.Sample)) error
	Close() error
}

// TestCPUGCPhase compares the phases of the garbage collector in samples with the events of the same collections. Samples close to
// the begin or the end of a collection are left out, as are those taken while the program was stopped in between.
func TestCPUGCPhase(t *testing.T) {
	for _, version := range testtarget.Last(t, testtarget.Among(t, "1.12.17", "1.21.13", testtarget.Latest())) {
		for name, open := range map[string]func(*goproc.Process, cpuperf.Options) (gcSampler, error){
			"eBPF":    func(p *goproc.Process, opt cpuperf.Options) (gcSampler, error) { return cpuperf.New(p, opt) },
			"no eBPF": func(p *goproc.Process, opt cpuperf.Options) (gcSampler, error) { return cpuperf.NewPlain(p, opt) },
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				t.Setenv("GOGC", "400") // some time between collections, so that samples are not close to one
				target := burn(t, testtarget.Spec{Go: version, Stripped: true}, "gc")
				defer target.Stop()
				var within, between, wrong int
				for attempt := 0; attempt < 15 && (within < 20 || between < 20); attempt++ {
					i, o, w := comparePhases(sampleCollections(t, target.PID(), open))
					within, between, wrong = within+i, between+o, wrong+w
				}
				t.Logf("%d samples within collections, %d between, %d wrong", within, between, wrong)
				if within < 20 || between < 20 || float64(wrong) > 0.02*float64(within+between) {
					t.Errorf("%d samples within collections, %d between, %d wrong", within, between, wrong)
				}
			})
		}
	}
}

// sampleCollections returns the samples of some seconds, and when collections began and ended meanwhile.
func sampleCollections(t *testing.T, pid int, open func(*goproc.Process, cpuperf.Options) (gcSampler, error)) (samples []cpuperf.Sample, begins, ends []time.Duration) {
	t.Helper()
	p, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sampler, err := open(p, cpuperf.Options{Rate: 999, BufferBytes: 1 << 24, GC: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := loupe.Attach(ctx, loupe.PID(pid), loupe.Options{Engine: loupe.EngineUprobe, Kinds: event.KindsOf(event.GCBegin, event.GCEnd)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := sampler.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(4*time.Second, cancel)
	drained := make(chan error)
	go func() {
		var err error
		for err == nil && ctx.Err() == nil {
			err = sampler.Drain(func(s *cpuperf.Sample) {
				samples = append(samples, cpuperf.Sample{Time: s.Time, GC: s.GC, Late: s.Late})
			})
			time.Sleep(10 * time.Millisecond)
		}
		drained <- err
	}()
	wall, err := tracetruth.ClockOffset()
	if err != nil {
		t.Fatal(err)
	}
	if uncertain := time.Duration(wall.Max - wall.Min); uncertain > time.Millisecond {
		t.Fatalf("the difference of the clocks is uncertain by %v", uncertain)
	}
	offset := time.Duration(wall.Min)
	for e := range s.Events() {
		switch e.Kind {
		case event.GCBegin:
			begins = append(begins, time.Duration(e.Time)-offset)
		case event.GCEnd:
			ends = append(ends, time.Duration(e.Time)-offset)
		}
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	return samples, begins, ends
}

// comparePhases counts the samples within collections and between them, and those whose phase contradicts that.
func comparePhases(samples []cpuperf.Sample, begins, ends []time.Duration) (within, between, wrong int) {
	const margin = 2 * time.Millisecond
	for i := range samples {
		at := &samples[i]
		b, _ := slices.BinarySearch(begins, at.Time)
		e, _ := slices.BinarySearch(ends, at.Time)
		if at.Late || b == 0 || b == len(begins) || e == len(ends) {
			continue
		}
		near := func(list []time.Duration, i int) bool {
			return i > 0 && at.Time-list[i-1] < margin || i < len(list) && list[i]-at.Time < margin
		}
		if near(begins, b) || near(ends, e) {
			continue
		}
		// A collection is in progress if the last begin is after the last end.
		collecting := e == 0 || begins[b-1] > ends[e-1]
		if collecting {
			within++
		} else {
			between++
		}
		if collecting != (at.GC != "") {
			wrong++
		}
	}
	return within, between, wrong
}
