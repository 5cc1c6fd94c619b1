package export

import (
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

func TestVersionFor(t *testing.T) {
	for release, want := range map[string]raw.Version{
		"": 0, "unknown": 0, "go1.4.3": 0, "go1.12.17": 0, "go1.21.13": 0, "go1.22.0": raw.Go122, "go1.22": raw.Go122, "go1.23.1": raw.Go123, "go1.24.13": raw.Go123,
		"go1.25rc1": raw.Go125, "go1.26.3 X:nodwarf5": raw.Go126, "go1.27.4": raw.Go126, "go1.99": raw.Go126,
		"devel go1.25-abcdef0 Mon Jan 2 15:04:05 2006": raw.Go125,
	} {
		if got := VersionFor(release); got != want {
			t.Errorf("%q: %v, want %v", release, got, want)
		}
	}
}
