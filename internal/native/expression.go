package native

import "fmt"

// evaluator computes values by rules, from the registers of a frame.
type evaluator struct {
	arch  *arch
	regs  *Registers
	stack func(uint64) (uint64, bool)
}

func (e *evaluator) register(n uint64) (uint64, error) {
	switch n {
	case e.arch.sp:
		return e.regs.SP, nil
	case e.arch.fp:
		if e.regs.FP != 0 { // 0: not known
			return e.regs.FP, nil
		}
	}
	return 0, fmt.Errorf("%w: register %d is not known", errRule, n)
}

func (e *evaluator) word(addr uint64) (uint64, error) {
	if w, ok := e.stack(addr); ok {
		return w, nil
	}
	return 0, ErrStackEnds
}

// address returns the canonical frame address.
func (e *evaluator) address(r rule) (uint64, error) {
	switch r.kind {
	case register:
		base, err := e.register(r.reg)
		return base + uint64(r.offset), err
	case isExpression:
		return e.expression(r.expression)
	}
	return 0, fmt.Errorf("%w: no canonical frame address", errRule)
}

// value returns a register of the caller. now is its value in this frame. It is 0 if it is undefined. If it was saved below the
// stack pointer, the function has restored it: compilers do not describe that.
func (e *evaluator) value(r rule, cfa, now uint64) (uint64, error) {
	switch r.kind {
	case unchanged:
		return now, nil
	case undefined:
		return 0, nil
	case atOffset:
		addr := cfa + uint64(r.offset)
		if addr < e.regs.SP {
			return now, nil
		}
		return e.word(addr)
	case isOffset:
		return cfa + uint64(r.offset), nil
	case register:
		return e.register(r.reg)
	case isExpression:
		return e.expression(r.expression, cfa)
	case atExpression:
		addr, err := e.expression(r.expression, cfa)
		if err != nil {
			return 0, err
		}
		return e.word(addr)
	}
	return 0, errRule
}

// maxDepth limits the stack of an expression.
const maxDepth = 64

// expression evaluates a DWARF expression (DWARF 5, section 2.5) that begins with some values on its stack. It has no jumps, so it ends.
func (e *evaluator) expression(code []byte, stack ...uint64) (uint64, error) {
	c := cursor{b: code}
	for len(c.b) > 0 && c.err == nil {
		op := c.u8()
		if push, known, err := e.operand(op, &c, stack); err != nil {
			return 0, err
		} else if known {
			if stack = append(stack, push); len(stack) > maxDepth {
				return 0, fmt.Errorf("%w: an expression needs too much stack", ErrMalformed)
			}
			continue
		}
		n := len(stack)
		switch {
		case op == 0x06 && n >= 1: // deref
			w, err := e.word(stack[n-1])
			if err != nil {
				return 0, err
			}
			stack[n-1] = w
		case op == 0x23 && n >= 1: // plus_uconst
			stack[n-1] += c.uleb()
		case op == 0x13 && n >= 1: // drop
			stack = stack[:n-1]
		case op == 0x16 && n >= 2: // swap
			stack[n-1], stack[n-2] = stack[n-2], stack[n-1]
		case n >= 2:
			w, ok := binaryOp(op, stack[n-2], stack[n-1])
			if !ok {
				return 0, fmt.Errorf("%w: operation %#x", errRule, op)
			}
			stack[n-2] = w
			stack = stack[:n-1]
		default:
			return 0, fmt.Errorf("%w: operation %#x without its operands", ErrMalformed, op)
		}
	}
	if c.err != nil || len(stack) == 0 {
		return 0, fmt.Errorf("%w: expression", ErrMalformed)
	}
	return stack[len(stack)-1], nil
}

// operand returns the value that an operation pushes, if it is one that only pushes.
func (e *evaluator) operand(op byte, c *cursor, stack []uint64) (value uint64, known bool, err error) {
	switch {
	case op >= 0x08 && op <= 0x0f: // const1u, const1s, const2u, ...
		size := uint64(1) << ((op - 0x08) / 2)
		if op%2 == 1 {
			return uint64(c.signed(size)), true, nil
		}
		return c.number(size), true, nil
	case op == 0x10: // constu
		return c.uleb(), true, nil
	case op == 0x11: // consts
		return uint64(c.sleb()), true, nil
	case op == 0x12 && len(stack) >= 1: // dup
		return stack[len(stack)-1], true, nil
	case op == 0x14 && len(stack) >= 2: // over
		return stack[len(stack)-2], true, nil
	case op >= 0x30 && op <= 0x4f: // lit0, ...
		return uint64(op - 0x30), true, nil
	case op >= 0x70 && op <= 0x8f: // breg0, ...
		n := uint64(op - 0x70)
		offset := uint64(c.sleb())
		if n == e.arch.pc {
			return e.regs.PC + offset, true, nil
		}
		value, err = e.register(n)
		return value + offset, true, err
	}
	return 0, false, nil
}

func binaryOp(op byte, a, b uint64) (result uint64, ok bool) {
	truth := func(t bool) uint64 {
		if t {
			return 1
		}
		return 0
	}
	switch op {
	case 0x1a:
		return a & b, true
	case 0x1c:
		return a - b, true
	case 0x1e:
		return a * b, true
	case 0x21:
		return a | b, true
	case 0x22:
		return a + b, true
	case 0x24:
		return a << b, true
	case 0x25:
		return a >> b, true
	case 0x29:
		return truth(int64(a) == int64(b)), true
	case 0x2a:
		return truth(int64(a) >= int64(b)), true
	case 0x2b:
		return truth(int64(a) > int64(b)), true
	case 0x2c:
		return truth(int64(a) <= int64(b)), true
	case 0x2d:
		return truth(int64(a) < int64(b)), true
	case 0x2e:
		return truth(int64(a) != int64(b)), true
	}
	return 0, false
}
