package trace

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/trace/raw"
)

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

// zeros is a reader of zeros without an end. It counts them.
type zeros struct{ n int64 }

func (z *zeros) Read(b []byte) (int, error) {
	clear(b)
	z.n += int64(len(b))
	return len(b), nil
}

// TestValidateTail validates traces with a tail of 1 GiB that has no batch. It gives up long before its end.
func TestValidateTail(t *testing.T) {
	for _, release := range []string{"1.22.12", "1.26.11"} {
		data := tinyTrace(t, release)
		tail := &zeros{}
		r, err := Validate(io.MultiReader(bytes.NewReader(data), io.LimitReader(tail, 1<<30)), ValidateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		whole, err := Validate(bytes.NewReader(data), ValidateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if tail.n > 32<<20 || r.Valid() || r.Batches != whole.Batches || r.Counts[CodeFraming] != 2 {
			t.Errorf("Go %s: %d bytes of the tail were read; %v, %v", release, tail.n, r, r.Problems)
		}
		if first, last := r.Problems[0], r.Problems[len(r.Problems)-1]; first.Offset != int64(len(data)) ||
			last.Text != "no batch within 16 MiB: the rest of the trace is not checked" {
			t.Errorf("Go %s: %v, %v", release, first, last)
		}
	}
}

// TestValidateCounts verifies that problems are counted beyond those that are kept, and that this is said.
func TestValidateCounts(t *testing.T) {
	e := newTraceEdit(t, tinyTrace(t, "1.26.11"))
	n := 0
	for i := range e.events {
		if ev := &e.events[i]; ev.Type == raw.EvGoBlock {
			ev.Args[2] = 9999
			n++
		}
	}
	data, _ := e.wire()
	report, err := Validate(bytes.NewReader(data), ValidateOptions{PerCode: 3})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 || report.Counts[CodeUnknownStack] != n || len(report.Problems) != 3 || report.Omitted != int64(n-3) || report.Errors != int64(n) {
		t.Errorf("%d of %d: %v", len(report.Problems), n, report)
	}
	if s := report.String(); !strings.Contains(s, "not listed") || strings.Contains(s, "\n") {
		t.Error(s)
	}
	if codes := report.Codes(); !slices.Equal(codes, []Code{CodeUnknownStack}) {
		t.Error(codes)
	}
}
