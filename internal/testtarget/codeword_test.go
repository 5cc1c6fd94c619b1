package testtarget

import (
	"slices"
	"testing"
)

// codeStack returns the stack of a coder's goroutine that speaks a word, leaf
// first, as the runtime itself would print it.
func codeStack(value uint, park, run string) []string {
	chain := []string{run, coderSpeak}
	for _, prefix := range []string{coderBit, coderCheck} {
		for i := codeWordBits - 1; i >= 0; i-- {
			bit := value >> i & 1
			if prefix == coderCheck {
				bit = 1 - bit
			}
			chain = append(chain, prefix+string(rune('0'+bit)))
		}
	}
	chain = append(chain, park)
	slices.Reverse(chain)
	return chain
}

// mixedPark returns the park that a mixed worker uses for a word.
func mixedPark(value uint) string { return coderParks[value%uint(len(coderParks))].name }

func TestCheckCodeWordWhole(t *testing.T) {
	for value := uint(0); value < 1<<codeWordBits; value++ {
		for _, stack := range [][]string{
			codeStack(value, "main.parkSleep", coderRun),
			codeStack(value, mixedPark(value), coderRunMixed),
			append([]string{"runtime.gopark", "runtime.chanrecv", "runtime.chanrecv1"},
				append(codeStack(value, "main.parkChan", coderRun), "main.main.gowrap2", "runtime.goexit")...),
		} {
			if got, ok, applies := CheckCodeWord(stack); got != value || !ok || !applies {
				t.Fatalf("word %d: got %d, %v, %v from %q", value, got, ok, applies, stack)
			}
		}
	}
}

// TestCheckCodeWordTorn mixes the stacks of two words at every place, as a
// reader does that is overtaken by the goroutine.
func TestCheckCodeWordTorn(t *testing.T) {
	torn := 0
	for count := uint(0); count < 1<<codeWordBits; count++ {
		// The words of the program in its order, and some with a gap.
		for _, gap := range []uint{1, 2, 7, 1000} {
			a := count * 2531 % (1 << codeWordBits)
			b := (count + gap) * 2531 % (1 << codeWordBits)
			old := codeStack(a, mixedPark(a), coderRunMixed)
			new := codeStack(b, mixedPark(b), coderRunMixed)
			for cut := 1; cut < len(old); cut++ {
				mix := append(slices.Clone(new[:cut]), old[cut:]...)
				if slices.Equal(mix, old) || slices.Equal(mix, new) {
					continue // nothing was torn
				}
				torn++
				if got, ok, applies := CheckCodeWord(mix); ok || !applies {
					t.Fatalf("words %d and %d cut at %d pass for %d (%v, %v): %q", a, b, cut, got, ok, applies, mix)
				}
			}
		}
	}
	if torn == 0 {
		t.Error("no mix of two words differs from both")
	}
}

func TestCheckCodeWordOther(t *testing.T) {
	word := codeStack(0xabc, "main.parkChan", coderRun)
	without := func(i int) []string { return slices.Delete(slices.Clone(word), i, i+1) }
	with := func(i int, f string) []string { return slices.Insert(slices.Clone(word), i, f) }
	for _, test := range []struct {
		name  string
		stack []string
		torn  bool
	}{
		{"nothing", nil, false},
		{"another goroutine", []string{"runtime.gopark", "main.(*worker).partner"}, false},
		{"between words", []string{coderSpeak, coderRun}, false},
		{"on the way", word[1:], false},
		{"among the checks", word[5:], false},
		{"among the bits", word[20:], false},
		{"preempted", append([]string{"runtime.asyncPreempt"}, word[5:]...), false},
		{"a frame missing", without(7), true},
		{"speak missing", without(len(word) - 2), true},
		{"run missing", without(len(word) - 1), true},
		{"cut at the root", word[:10], true},
		{"a frame twice", with(7, word[7]), true},
		{"a foreign frame inside", with(7, "runtime.gopark"), true},
		{"a foreign frame at the leaf", with(0, "main.(*worker).partner"), true},
		{"a word upon the other", append(slices.Clone(word), word...), true},
		{"the wrong park", codeStack(0xabc, mixedPark(0xabd), coderRunMixed), true},
	} {
		_, ok, applies := CheckCodeWord(test.stack)
		if ok || applies != test.torn {
			t.Errorf("%s: ok %v, applies %v, want false, %v", test.name, ok, applies, test.torn)
		}
	}
}

func TestCodeWordReason(t *testing.T) {
	for park, want := range map[string]string{
		"main.parkChan": "chan receive", "main.parkSelect": "select", "main.parkSleep": "sleep",
		"main.parkSched": "", "main.parkSpin": "",
	} {
		if got := CodeWordReason(codeStack(5, park, coderRun)); got != want {
			t.Errorf("in %s a goroutine waits for %q, want %q", park, got, want)
		}
	}
}
