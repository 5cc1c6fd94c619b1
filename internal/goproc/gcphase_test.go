package goproc

import (
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/layout"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func TestGCPhase(t *testing.T) {
	for _, test := range []struct {
		times GCTimes
		want  string
	}{
		{GCTimes{}, ""}, // of a program that has not collected anything
		{GCTimes{SweepTermination: 10}, phaseSweepTermination},
		{GCTimes{SweepTermination: 10, Mark: 12}, phaseMark},
		{GCTimes{SweepTermination: 10, Mark: 12, MarkTermination: 20}, phaseMarkTermination},
		{GCTimes{SweepTermination: 10, Mark: 12, MarkTermination: 20, End: 21}, ""},
		{GCTimes{SweepTermination: 30, Mark: 12, MarkTermination: 20, End: 21}, phaseSweepTermination},
		{GCTimes{SweepTermination: 30, Mark: 31, MarkTermination: 20, End: 21}, phaseMark},
	} {
		if got := test.times.Phase(); got != test.want {
			t.Errorf("%+v: %q, want %q", test.times, got, test.want)
		}
	}
}

// TestGCTimesLayout: the times are neighbours in all releases.
func TestGCTimesLayout(t *testing.T) {
	for _, version := range testtarget.AllVersions() {
		for _, arch := range []string{"amd64", "arm64"} {
			l, err := layout.ForVersion("go"+version, arch)
			if err != nil {
				t.Fatal(err)
			}
			first, err := l.Offset("runtime.workType.tSweepTerm")
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"tMark", "tMarkTerm", "tEnd"} {
				if off, err := l.Offset("runtime.workType." + name); err != nil || off != first+8*uint64(i+1) {
					t.Errorf("%s %s: %s at %d, want %d (%v)", version, arch, name, off, first+8*uint64(i+1), err)
				}
			}
		}
	}
}
