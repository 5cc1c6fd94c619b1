package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
)

// fakeCPU returns a CPU profile of one sample.
func fakeCPU() *loupe.CPUProfile {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, DurationNanos: 2e9, Period: 1e7,
		Sample: []*profile.Sample{{Value: []int64{7}}}}
	return &loupe.CPUProfile{Profile: p, CPU: 75 * time.Millisecond, Samples: 7, Lost: 3, Cut: 2}
}

func TestProfileCPU(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.pb.gz")
	sys := newFake()
	sys.cpu = fakeCPU()
	r := run(t, sys, "profile", "app", "--type", "cpu", "-o", file, "--duration", "3s", "--rate", "250", "--tag", "goroutine", "--tag", "gc", "--json")
	if want := (loupe.CPUOptions{Duration: 3 * time.Second, Rate: 250, Goroutines: true, GC: true, BufferBytes: loupe.DefaultBufferBytes}); sys.cpuOptions != want {
		t.Errorf("options %+v, want %+v", sys.cpuOptions, want)
	}
	var got cpuProfileJSON
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.status != exitDone || got.Counted != 7 || got.CPUSeconds != 0.075 || got.Seconds != 2 || got.Lost != 3 ||
		got.Truncated != 2 || got.Bytes == 0 || got.Type != "cpu" {
		t.Errorf("status %d, %q, %v", r.status, r.out, err)
	}
	if !strings.Contains(r.errOut, "note: 3 samples lost because the buffer was full") {
		t.Errorf("stderr %q", r.errOut)
	}
	if r := run(t, sys, "profile", "app", "--type", "cpu", "-o", file); r.status != exitDone || !strings.Contains(r.errOut, "wrote 7 samples (0.07 s of processor time) in 1 distinct stack to ") &&
		!strings.Contains(r.errOut, "wrote 7 samples (0.08 s of processor time) in 1 distinct stack to ") {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
}

// TestProfileCPUFails checks that no file is left where there is no profile.
func TestProfileCPUFails(t *testing.T) {
	idle, ended := fakeCPU(), fakeCPU()
	idle.Samples, ended.Samples = 0, 0
	ended.Ended = fmt.Errorf("process 42: %w", loupe.ErrExited)
	for _, test := range []struct {
		cpu    *loupe.CPUProfile
		err    error
		status int
		want   string
	}{
		{idle, nil, exitFailed, "no samples: process 42 used 75ms of processor time in 2s; use a longer --duration"},
		{ended, nil, exitUnobservable, "has exited"},
		{nil, fmt.Errorf("process 42: %w", loupe.ErrExec), exitUnobservable, "attach again"},
	} {
		file := filepath.Join(t.TempDir(), "cpu.pb.gz")
		sys := newFake()
		sys.cpu, sys.snapErr = test.cpu, test.err
		r := run(t, sys, "profile", "app", "--type", "cpu", "-o", file)
		if _, err := os.Stat(file); err == nil || r.status != test.status || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 {
			t.Errorf("status %d, stderr %q (%v); want %q", r.status, r.errOut, err, test.want)
		}
	}
}
