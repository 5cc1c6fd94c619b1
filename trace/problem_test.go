package trace

import (
	"testing"
)

func TestProblemText(t *testing.T) {
	for _, tt := range []struct {
		p    Problem
		want string
	}{
		{Problem{Offset: 16, Batch: -1, Thread: -1, Event: -1, Text: "x"}, "offset 16: x"},
		{Problem{Offset: 99, Generation: 2, Batch: 7, Thread: 5, Event: 3, Text: "x"}, "offset 99, generation 2, batch 7, M 5, event 3: x"},
	} {
		if got := tt.p.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if Error.String() != "error" || Warning.String() != "warning" || Severity(9).String() != "Severity(9)" {
		t.Error("severities")
	}
}
