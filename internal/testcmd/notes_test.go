package testcmd

import "testing"

func TestWithoutMachineNotes(t *testing.T) {
	const others = "loupe: cannot write x: full\nloupe: note: 3 events were lost\n"
	got := WithoutMachineNotes("loupe: note: 1 thread did not run for 1s because the machine is busy: the state\n" + others +
		"loupe: note: 2,000 threads did not run for 1s because the machine is busy\nloupe: note: times are exact to 3ms\n")
	if got != others {
		t.Errorf("got %q, want %q", got, others)
	}
}
