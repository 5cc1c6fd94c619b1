package inline

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// readDelay is the number of ticks by which a time can precede the moment its lane was taken: without a fence (Place.Fence), the
// counter may be read before the instruction that takes the lane completes. It is 4 µs or more. No processor runs ahead
// that far, and an interrupt restarts all incomplete instructions.
const readDelay = 1 << 14

// clocksources is the directory of the kernel's clock sources.
const clocksources = "/sys/devices/system/clocksource/clocksource0/"

// checkTicks refuses a counter that does not run at the same constant rate on all processors. In a virtual machine the kernel may
// be configured to use the clock of the hypervisor only, which it computes from the counter. Then the counters are compared.
func checkTicks() error {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fmt.Errorf("the processor's time stamp counter: %w", err)
	}
	sources, err := os.ReadFile(clocksources + "available_clocksource")
	if err != nil {
		sources = []byte("tsc") // unknown: rely on the processor's flags
	}
	err = checkTSC(string(info), string(sources))
	if errors.Is(err, errUnstable) {
		current, _ := os.ReadFile(clocksources + "current_clocksource") // without it, the error stays
		if strings.TrimSpace(string(current)) == "kvm-clock" {
			return compareCounters(func(int) uint64 { return ticks() })
		}
	}
	return err
}

var errUnstable = errors.New("the kernel reports that the time stamp counters of this machine are unstable")

// checkTSC checks the processor's flags, and whether the kernel itself uses the counter as a clock source.
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
	return errUnstable
}
