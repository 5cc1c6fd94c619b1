package insn

// Call is a direct call, or a jump out of the function.
type Call struct {
	PC     uint64 // the call instruction
	Target uint64 // where it goes
	// Tail says that the instruction is a jump that leaves the function: the
	// target returns to this function's caller.
	Tail bool
}

// Calls returns the direct calls of c and the jumps out of it, in order of
// address. Calls through a register or through memory are not among them.
func Calls(c Code) ([]Call, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	var calls []Call
	walk(c, func(s step) {
		tail := (s.flow == flowJump || s.flow == flowCond) && !c.contains(s.target)
		if s.flow == flowCall || tail {
			calls = append(calls, Call{PC: c.Entry + uint64(s.off), Target: s.target, Tail: tail})
		}
	})
	return calls, nil
}
