package testtarget

import "strings"

// codeWordBits is how many bits a word of the coder program has. Its call chain,
// root first: worker.run, worker.speak, the bits from the highest, a check for
// each bit (its complement) in the same order, and a park.
const codeWordBits = 12

// Names of the coder's functions.
const (
	coderRun      = "main.(*worker).run"
	coderRunMixed = "main.(*worker).runMixed" // its words choose their park
	coderSpeak    = "main.(*worker).speak"
	coderBit      = "main.bit"
	coderCheck    = "main.chk"
)

// coderParks names the parks, at the places by which words choose them. A
// goroutine that waits inside one has the reason; one without a reason never
// waits.
var coderParks = [...]struct{ name, reason string }{
	{"main.parkChan", "chan receive"},
	{"main.parkSelect", "select"},
	{"main.parkSched", ""},
	{"main.parkSleep", "sleep"},
	{"main.parkSpin", ""},
}

// CheckCodeWord judges a stack of the coder program, given its function names
// leaf first, with or without runtime functions and inlined frames.
//
// applies is false for a stack that says nothing: it is not a worker's, or is
// one between two words or on the way to or from the end of a word, as far as
// its frames fit together. Else ok says whether every frame belongs to one and
// the same word, and value is that word. A stack that applies and is not ok is
// torn: the goroutine never had it.
func CheckCodeWord(funcs []string) (value uint, ok bool, applies bool) {
	leafmost, rootmost := -1, -1
	for i, f := range funcs {
		if !isCodeFunc(f) {
			continue
		}
		if leafmost < 0 {
			leafmost = i
		} else if rootmost != i-1 {
			return 0, false, true // there is a foreign frame within the word
		}
		rootmost = i
	}
	if leafmost < 0 {
		return 0, false, false
	}
	for _, f := range funcs[:leafmost] {
		if strings.HasPrefix(f, "main.") {
			return 0, false, true // words call none of the program's functions
		}
	}
	roots := funcs[rootmost+1:]
	if len(roots) < 2 || roots[0] != coderSpeak || roots[1] != coderRun && roots[1] != coderRunMixed {
		return 0, false, true
	}
	return judgeWord(funcs[leafmost:rootmost+1], roots[1] == coderRunMixed)
}

// CodeWordReason returns the wait reason that a goroutine of the coder program
// with this stack has if it waits, or "" when it does not wait by its own doing.
// The runtime can make it wait anywhere, for a preemption or where it allocates
// (time.Sleep until Go 1.13) for the collector. It is for stacks whose word is ok.
func CodeWordReason(funcs []string) string {
	for _, f := range funcs {
		if i := parkIndex(f); i >= 0 {
			return coderParks[i].reason
		}
	}
	return ""
}

// judgeWord compares the functions of a word, leaf first, with each other.
func judgeWord(funcs []string, mixed bool) (value uint, ok bool, applies bool) {
	for i := range funcs {
		f := funcs[len(funcs)-1-i]
		switch {
		case i < codeWordBits:
			bit, isBit := codeBit(f, coderBit)
			if !isBit {
				return 0, false, true
			}
			value = value<<1 | bit
		case i < 2*codeWordBits:
			check, isCheck := codeBit(f, coderCheck)
			if !isCheck || check == value>>(2*codeWordBits-1-i)&1 {
				return 0, false, true
			}
		default:
			park := parkIndex(f)
			if i > 2*codeWordBits || park < 0 || mixed && uint(park) != value%uint(len(coderParks)) {
				return 0, false, true
			}
		}
	}
	if len(funcs) <= 2*codeWordBits {
		return 0, false, false
	}
	return value, true, true
}

// isCodeFunc says whether a function is part of a code word.
func isCodeFunc(name string) bool {
	_, bit := codeBit(name, coderBit)
	_, check := codeBit(name, coderCheck)
	return bit || check || parkIndex(name) >= 0
}

// codeBit returns the digit at the end of main.bit0 or main.chk1.
func codeBit(name, prefix string) (bit uint, ok bool) {
	switch rest, found := strings.CutPrefix(name, prefix); {
	case found && rest == "0":
		return 0, true
	case found && rest == "1":
		return 1, true
	}
	return 0, false
}

// parkIndex returns the place of a park in coderParks, or -1.
func parkIndex(name string) int {
	for i, p := range coderParks {
		if p.name == name {
			return i
		}
	}
	return -1
}
