package codepatch

import (
	"fmt"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

// tablesAvoid checks that no jump to a computed address leads between the
// instructions first and last. Where one leads is not known, but with which
// stack pointer: each place of a function has one distance between the stack
// pointer and the frame, or the function could not be unwound. So a jump leads
// to none of the places where that distance differs from the jump's own.
func (p *planner) tablesAvoid(first, last int) error {
	if first == last {
		return nil
	}
	var jumps []int
	for n, i := range p.list {
		if i.Flow == insn.FlowIndirect {
			jumps = append(jumps, n)
		}
	}
	if len(jumps) == 0 {
		return nil
	}
	depths := p.depths()
	for _, jump := range jumps {
		at, ok := depths[jump]
		if !ok {
			return fmt.Errorf("the jump to a computed address at %#x may lead to a displaced instruction", p.list[jump].PC)
		}
		for n := first + 1; n <= last; n++ {
			if depth, ok := depths[n]; !ok || depth == at {
				return fmt.Errorf("the jump to a computed address at %#x may lead to the displaced instruction at %#x",
					p.list[jump].PC, p.list[n].PC)
			}
		}
	}
	return nil
}

// depths returns how far the stack pointer is below the function's first at
// instructions that are reached without a jump to a computed address, as far as
// that can be told. It returns none when two ways to a place disagree.
func (p *planner) depths() map[int]int {
	depths := map[int]int{0: 0}
	for work := []int{0}; len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		i := p.list[n]
		if !i.SPKnown {
			continue
		}
		depth := depths[n] + i.SPMoved
		visit := func(to int) bool {
			old, seen := depths[to]
			if !seen {
				depths[to] = depth
				work = append(work, to)
			}
			return !seen || old == depth
		}
		agree := true
		if target, ok := p.indexOf(i.Target); ok && (i.Flow == insn.FlowCond || i.Flow == insn.FlowJump) {
			agree = visit(target)
		}
		if !i.Flow.EndsBlock() && n+1 < len(p.list) {
			agree = visit(n+1) && agree
		}
		if !agree {
			return nil
		}
	}
	return depths
}
