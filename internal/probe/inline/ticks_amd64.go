package inline

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// readDelay is how many ticks a time can be older than the moment its lane was taken: where there is no fence (unfenced), the
// counter can be read before the instruction that takes the lane is done. No processor is that much ahead of itself: this is
// 4 µs and more, and all that is under way begins anew after an interrupt.
const readDelay = 1 << 14

// checkTicks refuses a counter that does not run at one rate on all processors.
func checkTicks() error {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fmt.Errorf("the processor's time stamp counter: %w", err)
	}
	sources, err := os.ReadFile("/sys/devices/system/clocksource/clocksource0/available_clocksource")
	if err != nil {
		sources = []byte("tsc") // not told: the processor's word must do
	}
	return checkTSC(string(info), string(sources))
}

// checkTSC judges by the processor's flags, and by whether the kernel has found the counter good enough for itself.
func checkTSC(cpuinfo, sources string) error {
	var flags []string
	for line := range strings.Lines(cpuinfo) {
		if name, list, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			flags = strings.Fields(list)
			break
		}
	}
	for _, want := range []string{"constant_tsc", "nonstop_tsc"} {
		found := false
		for _, f := range flags {
			found = found || f == want
		}
		if !found {
			return fmt.Errorf("the time stamp counter of this processor does not run at a constant rate (no %s)", want)
		}
	}
	for _, s := range strings.Fields(sources) {
		if s == "tsc" {
			return nil
		}
	}
	return errors.New("the kernel reports that the time stamp counters of this machine are unstable")
}
