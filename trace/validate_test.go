package trace

import "testing"

// TestReportString writes numbers of things.
func TestReportString(t *testing.T) {
	for n, want := range map[int]string{
		0: "trace of Go1.22, 0 generations, 0 batches, 0 events: 0 errors, 0 warnings",
		1: "trace of Go1.22, 1 generation, 1 batch, 1 event: 1 error, 1 warning, 1 of them not listed (1 of each code are), 1 thing not checked because of unreadable parts",
		2: "trace of Go1.22, 2 generations, 2 batches, 2 events: 2 errors, 2 warnings, 2 of them not listed (2 of each code are), 2 things not checked because of unreadable parts",
	} {
		many := int64(n)
		r := Report{Version: 22, Generations: n, Batches: n, Events: many, Errors: many, Warnings: many, Omitted: many, PerCode: n, Unchecked: many}
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
