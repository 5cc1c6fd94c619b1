package functions

import (
	"fmt"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// world is a decoder, and the spans that have ended.
type world struct {
	*decoder
	now  int64
	list []string
}

func newWorld() *world {
	w := &world{}
	w.decoder = newDecoder(join.NewTracker(join.Options{Handle: func(s *spans.Span) {
		w.list = append(w.list, fmt.Sprintf("%s %d-%d ending %d %s", s.Name, s.Start, s.End, s.Ending, s.Message))
	}}), nil)
	return w
}

func (w *world) note() *probe.Note {
	w.now++
	return &probe.Note{G: 1, Time: w.now}
}

func (w *world) call(f *Function, depth uint64) { w.called(f, depth, w.note()) }
func (w *world) ret(f *Function, depth uint64)  { w.returned(f, depth, w.note()) }
func (w *world) recover(depth uint64)           { w.now++; w.Recovered(1, depth, w.now) }
func (w *world) goexit()                        { w.now++; w.Exits(1, w.now) }
func (w *world) counts() (strays, unknown uint64) {
	c := w.tracker.Counts()
	return c.Strays, c.Unobserved
}

// TestUnwind ends calls in each way, also with lost notes.
func TestUnwind(t *testing.T) {
	f, g := &Function{name: "f"}, &Function{name: "g"}
	for name, test := range map[string]struct {
		do              func(w *world)
		want            []string
		strays, unknown uint64
	}{
		"nested":      {func(w *world) { w.call(f, 10); w.call(f, 20); w.ret(f, 20); w.ret(f, 10) }, []string{"f 2-3 ending 0 ", "f 1-4 ending 0 "}, 0, 0},
		"siblings":    {func(w *world) { w.call(f, 10); w.ret(f, 10); w.call(g, 10); w.ret(g, 10) }, []string{"f 1-2 ending 0 ", "g 3-4 ending 0 "}, 0, 0},
		"lost return": {func(w *world) { w.call(f, 10); w.call(f, 20); w.ret(f, 10) }, []string{"f 2-3 ending 2 ", "f 1-3 ending 0 "}, 0, 1},
		"lost returns": {func(w *world) { w.call(f, 10); w.call(f, 20); w.call(g, 10); w.ret(g, 10) },
			[]string{"f 2-3 ending 2 ", "f 1-3 ending 2 ", "g 3-4 ending 0 "}, 0, 2},
		"lost call":      {func(w *world) { w.ret(f, 10); w.call(f, 10); w.ret(f, 20); w.ret(f, 10) }, []string{"f 2-4 ending 0 "}, 2, 0},
		"other function": {func(w *world) { w.call(f, 10); w.ret(g, 10); w.ret(f, 10) }, []string{"f 1-3 ending 0 "}, 1, 0},
		"recovered": {func(w *world) { w.call(f, 10); w.call(g, 20); w.call(g, 30); w.recover(18); w.ret(f, 10) },
			[]string{"g 3-4 ending 1 panic", "g 2-4 ending 1 panic", "f 1-5 ending 0 "}, 0, 0},
		"recovered by itself": {func(w *world) { w.call(f, 10); w.recover(18); w.ret(f, 10) }, []string{"f 1-3 ending 0 "}, 0, 0},
		"goexit": {func(w *world) { w.call(f, 10); w.call(g, 20); w.goexit(); w.call(f, 10); w.ret(f, 10) },
			[]string{"g 2-3 ending 1 runtime.Goexit", "f 1-3 ending 1 runtime.Goexit", "f 4-5 ending 0 "}, 0, 0},
		"without calls": {func(w *world) { w.recover(10); w.goexit(); w.Panics(1, 5) }, nil, 0, 0},
	} {
		w := newWorld()
		test.do(w)
		strays, unknown := w.counts()
		if !slices.Equal(w.list, test.want) || strays != test.strays || unknown != test.unknown {
			t.Errorf("%s: %q, %d strays, %d unknown ends, want %q, %d, %d", name, w.list, strays, unknown, test.want, test.strays, test.unknown)
		}
		if len(w.stacks) != 0 || w.open != 0 {
			t.Errorf("%s: %d goroutines with %d calls remain", name, len(w.stacks), w.open)
		}
	}
}

// TestLimit has more open calls than are kept.
func TestLimit(t *testing.T) {
	w, f := newWorld(), &Function{name: "f"}
	for depth := range uint64(maxOpen + 2) {
		w.call(f, depth+1)
	}
	if _, unknown := w.counts(); unknown != 2 || w.open != maxOpen {
		t.Errorf("%d unknown ends, %d open", unknown, w.open)
	}
	w.goexit()
	if c := w.tracker.Counts(); c.Ended != maxOpen+2 || c.Panicked != maxOpen || w.open != 0 {
		t.Errorf("%+v", c)
	}
}
