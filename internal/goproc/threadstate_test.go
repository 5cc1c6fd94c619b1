package goproc

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
)

// TestThreadStackHostile computes call stacks of states that do not fit together: registers, bounds and stacks at random, with
// addresses of code among them. Each walk must end, and within its limit.
func TestThreadStackHostile(t *testing.T) {
	p, err := Open(os.Getpid(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var code []uint64
	for f := range p.main.bin.Functions() {
		code = append(code, f.Entry+p.main.bias, (f.Entry+f.End)/2+p.main.bias)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	named := []string{"runtime.systemstack", "runtime.morestack", "runtime.mcall", "runtime.gogo", "runtime.goexit", "runtime.asyncPreempt", "runtime.cgocallback"}
	for _, name := range named {
		if f, ok := p.main.bin.LookupFunc(name); ok {
			for range len(code) / len(named) { // half of all
				code = append(code, f.Entry+p.main.bias+rnd.Uint64N(f.End-f.Entry))
			}
		}
	}
	const base, size = 1 << 32, 1 << 12
	addr := func() uint64 {
		switch rnd.IntN(4) {
		case 0:
			return code[rnd.IntN(len(code))]
		case 1:
			return rnd.Uint64()
		}
		return base + rnd.Uint64N(2*size)&^7
	}
	data := make([]byte, 2*size)
	known, deep := 0, 0
	for range 20000 {
		for i := 0; i < len(data); i += 8 {
			binary.LittleEndian.PutUint64(data[i:], addr())
		}
		s := ThreadState{PC: code[rnd.IntN(len(code))], SP: addr(), FP: addr(), LR: addr(), M: 1, G: rnd.Uint64N(2), GM: rnd.Uint64N(2), StackLo: addr(), StackHi: addr(),
			SchedPC: addr(), SchedSP: addr(), SchedLR: addr(), SyscallPC: addr(), SyscallSP: addr(), VDSOPC: addr(), VDSOSP: addr() * rnd.Uint64N(2),
			CgoCalls: rnd.Uint64N(2), Stack: StackCopy{addr(), data[:rnd.IntN(size)]}, Goroutine: StackCopy{addr(), data[size:][:rnd.IntN(size)]}}
		stack := p.ThreadStack(&s)
		if len(stack.Frames) == 0 || len(stack.Frames) > maxThreadFrames*maxInlined {
			s.Stack.Data, s.Goroutine.Data = nil, nil // too much to print
			t.Fatalf("%d frames of %+v", len(stack.Frames), s)
		}
		if !stack.Unknown {
			known++
		}
		if len(stack.Frames) > 1 {
			deep++
		}
	}
	if known < 1000 || deep < 100 {
		t.Errorf("%d stacks are known, %d have several frames: the states are too random", known, deep)
	}
}

// maxInlined is more than the number of inlined calls at any address.
const maxInlined = 256
