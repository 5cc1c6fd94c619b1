package inline

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// TestCompareCounters compares the counters of this machine, and counters one of which is behind, also with one P.
func TestCompareCounters(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("requires two processors")
	}
	for _, procs := range []int{1, 2} {
		before := runtime.GOMAXPROCS(procs)
		var err error
		for range 20 { // another process may use a processor
			if err = compareCounters(func(cpu int) uint64 { return ticks() - uint64(cpu)*1000 }); err == nil || !strings.Contains(err.Error(), "busy") {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), "differ by") {
			t.Errorf("a counter that is 1,000 ticks behind: %v", err)
		}
		if got := runtime.GOMAXPROCS(before); got != procs {
			t.Errorf("GOMAXPROCS is %d, was %d", got, procs)
		}
	}
	t.Logf("the counters of this machine: %v", compareCounters(func(int) uint64 { return ticks() }))
	if list, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/available_clocksource"); err == nil && strings.Contains(string(list), "tsc") {
		if err := compareCounters(func(int) uint64 { return ticks() }); err != nil && !strings.Contains(err.Error(), "busy") {
			t.Errorf("the kernel uses counters that are found to differ: %v", err)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string]string{"0": "[0]", "0-3,5": "[0 1 2 3 5]", "": "", "3-1": "", "0-": "", "0-99999999": "", "x": ""} {
		got, err := parseCPUs(list)
		if want == "" && err == nil || want != "" && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
}
