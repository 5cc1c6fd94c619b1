package generation

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/loupe-go/loupe/trace/internal/problem"
)

// TestNumbers compares all ways of decoding numbers with encoding/binary.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100_000 {
		var b []byte
		var want []uint64
		for range 5 {
			x := rng.Uint64() >> rng.IntN(64)
			b = binary.AppendUvarint(b, x)
			if rng.IntN(10) == 0 && len(b) > 0 && b[len(b)-1] < 0x80 && x < 1<<50 { // padded
				b[len(b)-1] |= 0x80
				b = append(b, 0)
			}
			want = append(want, x)
		}
		b = append(b, make([]byte, tail)...)
		at := 0
		for i, x := range want {
			got, next := Number(b, at)
			if _, n := binary.Uvarint(b[at:]); got != x || next != at+n {
				t.Fatalf("number %d of % x: %d, %d", i, b, got, next)
			}
			at = next
		}
		w := binary.LittleEndian.Uint64(b)
		win := WindowOf(w)
		together := win.Together(w)
		at = 0
		for i := range int(win.Count) {
			if got := win.Number(together, i); got != want[i] {
				t.Fatalf("number %d in the window of % x: %d, want %d", i, b[:8], got, want[i])
			}
			_, at = Number(b, at)
			if int(win.Ends[i+1]) != at {
				t.Fatalf("number %d in the window of % x ends at %d, want %d", i, b[:8], win.Ends[i+1], at)
			}
		}
	}
	for _, tt := range []struct {
		b    []byte
		want problem.Code
	}{
		{bytes.Repeat([]byte{0xff}, 10), problem.Overflow},
		{append(bytes.Repeat([]byte{0xff}, 9), 2), problem.Overflow},
		{bytes.Repeat([]byte{0xff}, 4), problem.CutOff},
		{nil, problem.CutOff},
	} {
		if got := NumberFault(append(bytes.Clone(tt.b), make([]byte, tail)...), 0, len(tt.b)); got != tt.want {
			t.Errorf("% x: %s, want %s", tt.b, got, tt.want)
		}
	}
}
