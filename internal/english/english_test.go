package english

import "testing"

func TestCount(t *testing.T) {
	for _, test := range []struct {
		noun            string
		none, one, many string
	}{
		{"event", "0 events", "1 event", "2 events"},
		{"process", "0 processes", "1 process", "2 processes"},
		{"stack", "0 stacks", "1 stack", "2 stacks"},
		{"entry", "0 entries", "1 entry", "2 entries"},
		{"way", "0 ways", "1 way", "2 ways"},
		{"branch", "0 branches", "1 branch", "2 branches"},
		{"garbage collection", "0 garbage collections", "1 garbage collection", "2 garbage collections"},
	} {
		for n, want := range []string{test.none, test.one, test.many} {
			if got := Count(n, test.noun); got != want {
				t.Errorf("Count(%d, %q) = %q, want %q", n, test.noun, got, want)
			}
		}
	}
	if got := Count(uint64(1<<63), "event"); got != "9,223,372,036,854,775,808 events" {
		t.Error(got)
	}
	for n, want := range map[int]string{-1: "-1", -999: "-999", -1000: "-1,000", 999: "999", 1000: "1,000", 123456: "123,456"} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) = %q", n, got)
		}
	}
	if got := Pick(1, "is", "are") + Pick(0, "is", "are"); got != "isare" {
		t.Error(got)
	}
}
