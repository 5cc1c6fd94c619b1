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
	for n, want := range map[int]string{0: "0", 1234567: "1,234,567", -1: "-1", -100: "-100", -999: "-999", -1000: "-1,000", 999: "999", 1000: "1,000", 123456: "123,456"} {
		if got := Number(n); got != want {
			t.Errorf("Number(%d) = %q", n, got)
		}
	}
	for n, want := range map[int64]string{-5: "0 B", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 99_900 << 10: "97.6 MiB",
		137<<20 + 400<<10: "137 MiB", 1023 << 10: "1023 KiB", 1<<20 - 1: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 1 << 62: "4.0 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
	if got := Pick(1, "is", "are") + Pick(0, "is", "are"); got != "isare" {
		t.Error(got)
	}
}
