package inline

import (
	"strings"
	"testing"
)

// TestTSC judges counters by what kernels say of processors.
func TestTSC(t *testing.T) {
	const good = "processor\t: 0\nflags\t\t: fpu tsc msr constant_tsc rep_good nonstop_tsc cpuid\nbugs\t\t:\n"
	for _, c := range []struct{ name, info, sources, want string }{
		{"good", good, "tsc hpet acpi_pm \n", ""},
		{"virtual", good, "kvm-clock tsc acpi_pm", ""},
		{"unstable", good, "hpet acpi_pm", "unstable"},
		{"stops", strings.Replace(good, "nonstop_tsc ", "", 1), "tsc", "no nonstop_tsc"},
		{"old", strings.Replace(good, "constant_tsc ", "", 1), "tsc", "no constant_tsc"},
		{"nothing", "", "tsc", "no constant_tsc"},
	} {
		err := checkTSC(c.info, c.sources)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
