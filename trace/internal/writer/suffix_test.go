package writer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	xtrace "golang.org/x/exp/trace"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/trace/raw"
)

// generations splits a trace into its header and its generations.
func generations(t *testing.T, data []byte) (head []byte, parts [][]byte) {
	t.Helper()
	r, err := raw.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	head = data[:r.Offset()]
	number, begin, at := uint64(0), r.Offset(), r.Offset()
	for ev, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == raw.EvEventBatch && ev.Args[0] != number {
			if number != 0 {
				parts = append(parts, data[begin:at])
			}
			number, begin = ev.Args[0], at
		}
		at = r.Offset()
	}
	return head, append(parts, data[begin:])
}

// TestWriterSuffix expects what is left of a trace without its first generations to be a trace that tells of all goroutines
// that are alive, whatever the events were.
func TestWriterSuffix(t *testing.T) {
	for i, opt := range simulations {
		for _, v := range versions {
			for _, damaged := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/damaged=%v", v, i, damaged), func(t *testing.T) {
					events := newSimulation(uint64(i), opt).run(1000).events
					if damaged {
						rng := rand.New(rand.NewPCG(uint64(i), 2))
						for _, d := range damages {
							events = d.change(rng, events, 0.02)
						}
					}
					data, stats := writeAll(t, events, Options{Version: v, Generation: 5 * time.Millisecond})
					head, parts := generations(t, data)
					if len(parts) < 3 || uint64(len(parts)) != stats.Generations {
						t.Fatalf("%d generations, stats %+v", len(parts), stats)
					}
					whole := readSteps(t, data)
					for n := 1; n < len(parts); n += 1 + len(parts)/6 {
						rest := readSteps(t, bytes.Join(append([][]byte{head}, parts[n:]...), nil))
						sameEnd(t, whole, rest)
					}
				})
			}
		}
	}
}

// sameEnd verifies that in the rest of a trace each goroutine of the rest goes through the last of its steps of the whole.
func sameEnd(t *testing.T, whole, rest *recording) {
	t.Helper()
	for g, steps := range whole.steps {
		end, left := steps[len(steps)-1], rest.steps[g]
		if len(left) == 0 {
			if end.to != xNone {
				t.Fatalf("G%d is missing", g)
			}
			continue
		}
		if all := steps[max(len(steps)-len(left)+1, 0):]; left[0].from == xtrace.GoUndetermined {
			left = left[1:]
			for i := range left {
				if !left[i].is(all[i].from, all[i].to) || left[i].reason != all[i].reason {
					t.Fatalf("G%d: step %+v, in the whole %+v", g, left[i], all[i])
				}
			}
		}
		if rest.steps[g][len(rest.steps[g])-1].to != end.to {
			t.Fatalf("G%d ends otherwise", g)
		}
	}
}

// TestWriterFlush expects a trace to be complete after Flush, and to go on.
func TestWriterFlush(t *testing.T) {
	s := newSimulation(5, simulations[1]).run(1500)
	for _, v := range versions {
		var out bytes.Buffer
		w, err := New(&out, Options{Version: v})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range s.events {
			if err := w.Write(&s.events[i]); err != nil {
				t.Fatal(err)
			}
			if i%200 == 100 {
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				if read := readSteps(t, out.Bytes()); len(read.steps) == 0 {
					t.Error("nothing is there")
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != errClosed {
			t.Errorf("error %v", err)
		}
		if stats := w.Stats(); stats.Repaired > 0 {
			t.Errorf("stats %+v", stats)
		}
		readSteps(t, out.Bytes())
	}
	var out bytes.Buffer
	w, _ := New(&out, Options{})
	e := event.Event{Kind: event.GoStatus, G: 1, Time: 1}
	if w.Write(&e) != nil || w.Flush() != nil || w.Stats().Generations != 0 {
		t.Error("the snapshot is cut")
	}
}
