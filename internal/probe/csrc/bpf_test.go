package csrc_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// TestContextAccess checks that programs read the registers of a hit at constant places of their context, never by another
// pointer that was worked out from it: older kernels, such as 6.1, refuse that ("dereference of modified ctx ptr"), and which
// architecture's object has it is the compiler's choice.
func TestContextAccess(t *testing.T) {
	for _, object := range []string{"probes_x86_bpfel.o", "probes_arm64_bpfel.o"} {
		b, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		for name, program := range spec.Programs {
			if program.Type != ebpf.Kprobe {
				continue
			}
			n, wrong := contextAccess(program.Instructions)
			reads += n
			for _, at := range wrong {
				t.Errorf("%s: %s: instruction %d changes a pointer to the context: %v", object, name, at, program.Instructions[at])
			}
		}
		if reads < 100 {
			t.Errorf("%s: only %d reads of the context", object, reads)
		}
	}
}

// holders is a set of places that may hold a pointer to the context: registers, and by their offsets places on the stack.
type holders map[int]bool

// slot is the number of a place on the stack.
func slot(offset int16) int { return 1000 + int(offset) }

// contextAccess follows the context from the beginning of a program through all its branches. It returns the number of
// instructions that read from it, and the instructions that change a pointer to it.
func contextAccess(list asm.Instructions) (reads int, wrong []int) {
	labels, places := map[string]int{}, map[asm.RawInstructionOffset]int{}
	var offsets []asm.RawInstructionOffset
	for iter := list.Iterate(); iter.Next(); {
		if s := iter.Ins.Symbol(); s != "" {
			labels[s] = iter.Index
		}
		places[iter.Offset] = iter.Index
		offsets = append(offsets, iter.Offset)
	}
	at := map[int]holders{0: {int(asm.R1): true}}
	seen := map[int]bool{}
	for todo := []int{0}; len(todo) > 0; {
		i := todo[0]
		todo = todo[1:]
		ins := list[i]
		next, read, changes := step(at[i], ins)
		if !seen[i] {
			seen[i] = true
			if read {
				reads++
			}
		}
		if changes {
			wrong = append(wrong, i)
			next[int(ins.Dst)] = false
		}
		goTo := func(j int, held holders) {
			if at[j] == nil {
				at[j] = holders{}
			} else if !held.adds(at[j]) {
				return
			}
			for h, on := range held {
				at[j][h] = at[j][h] || on
			}
			todo = append(todo, j)
		}
		op := ins.OpCode.JumpOp()
		if ins.IsFunctionCall() {
			goTo(labels[ins.Reference()], at[i].arguments())
		}
		if ins.OpCode.Class().IsJump() && op != asm.Call && op != asm.Exit {
			goTo(places[asm.RawInstructionOffset(int64(offsets[i])+int64(ins.Offset)+1)], next)
		}
		if op != asm.Exit && op != asm.Ja && i+1 < len(list) {
			goTo(i+1, next)
		}
	}
	return reads, wrong
}

// arguments returns what a function is given.
func (h holders) arguments() holders {
	given := holders{}
	for r := asm.R1; r <= asm.R5; r++ {
		given[int(r)] = h[int(r)]
	}
	return given
}

// adds reports whether something is in h that is not in others.
func (h holders) adds(others holders) bool {
	for place, on := range h {
		if on && !others[place] {
			return true
		}
	}
	return false
}

// step returns what holds the context behind an instruction.
func step(before holders, ins asm.Instruction) (after holders, read, changes bool) {
	after = holders{}
	for h, on := range before {
		after[h] = on
	}
	dst, src := int(ins.Dst), int(ins.Src)
	switch class := ins.OpCode.Class(); {
	case class.IsLoad():
		read = ins.OpCode.Mode() == asm.MemMode && before[src]
		after[dst] = ins.Src == asm.R10 && ins.OpCode.Mode() == asm.MemMode && before[slot(ins.Offset)]
	case class.IsStore():
		if ins.Dst == asm.R10 {
			after[slot(ins.Offset)] = class == asm.StXClass && before[src]
		}
	case class.IsALU():
		switch ins.OpCode.ALUOp() {
		case asm.Mov:
			after[dst] = ins.OpCode.Source() == asm.RegSource && before[src]
		case asm.Add, asm.Sub:
			changes = before[dst]
		default: // no verifier lets that be done to a pointer: on the way on which it would be one, nobody comes here
			after[dst] = false
		}
	case ins.OpCode.JumpOp() == asm.Call:
		for r := asm.R0; r <= asm.R5; r++ {
			after[int(r)] = false
		}
	}
	return after, read, changes
}
