package rawtruth

import (
	"bytes"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

// content is what a trace has, as far as other tests rely on it.
type content struct {
	events      map[string]int // by name
	generations map[uint64]bool
	emptyData   int // events with data of no bytes
	frames      int // of the biggest stack
}

func contentOf(t *testing.T, wire []byte) content {
	t.Helper()
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		t.Fatal(err)
	}
	c := content{events: make(map[string]int), generations: make(map[uint64]bool)}
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		c.events[ev.Spec().Name]++
		c.frames = max(c.frames, len(ev.Frames))
		if ev.Spec().HasData && len(ev.Data) == 0 {
			c.emptyData++
		}
		if ev.Type == raw.EvEventBatch && !ev.Version.V1() {
			c.generations[ev.Args[0]] = true
		}
	}
	return c
}

// wantedEvents returns names of events that a trace of a release has to have.
func wantedEvents(rel release, allocFree bool) string {
	if allocFree {
		return "ExperimentalBatch Span SpanAlloc HeapObject HeapObjectAlloc HeapObjectFree GoroutineStackAlloc"
	}
	if rel.minor < 22 {
		names := "Batch Frequency Stack String GCStart GoSysCall GoStart GoStartLocal UserTaskCreate UserRegion UserLog HeapAlloc"
		if rel.minor >= 19 {
			names += " CPUSample"
		}
		return names
	}
	names := "EventBatch Strings String Stacks Stack CPUSamples CPUSample Frequency GCBegin GoSyscallBegin GoStatus STWBegin" +
		" UserTaskBegin UserRegionEnd UserLog HeapAlloc"
	for _, since := range []struct {
		minor int
		names string
	}{{23, " GoSwitch GoCreateBlocked"}, {25, " Sync ClockSnapshot"}, {26, " EndOfGeneration"}} {
		if rel.minor >= since.minor {
			names += since.names
		}
	}
	return names
}

// TestRealContent makes sure that the traces have what the other tests are meant to see.
func TestRealContent(t *testing.T) {
	eachTrace(t, func(t *testing.T, rel release, wire []byte) {
		allocFree := strings.HasSuffix(t.Name(), "-allocfree")
		c := contentOf(t, wire)
		for _, name := range strings.Fields(wantedEvents(rel, allocFree)) {
			if c.events[name] == 0 {
				t.Errorf("no %s", name)
			}
		}
		if rel.minor >= 22 && !allocFree && len(c.generations) < 2 {
			t.Errorf("%d generations", len(c.generations))
		}
		// From Go 1.26 on the runtime writes no empty strings.
		if c.emptyData == 0 && rel.minor < 26 {
			t.Error("no empty data")
		}
		if c.frames < 120 {
			t.Errorf("%d frames at most", c.frames)
		}
	})
}
