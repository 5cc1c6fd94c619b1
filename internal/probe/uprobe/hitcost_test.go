package uprobe

import (
	"os"
	"testing"
	"time"
)

// TestMeasureHit measures what a hit costs. A trap takes 100 ns or more on any machine.
func TestMeasureHit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	for _, opt := range []Options{{}, {SingleUprobes: true}, {}} {
		began := time.Now()
		cost, err := MeasureHit(opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v in %v", cost, time.Since(began))
		if cost.Hit < 100*time.Nanosecond {
			t.Errorf("a hit takes %v", cost.Hit)
		}
	}
}
