package native

import (
	"fmt"
	"maps"
)

// ruleKind is how a register of the caller is found.
type ruleKind uint8

const (
	unchanged ruleKind = iota // the register has its value
	undefined                 // it is lost
	atOffset                  // at an offset from the canonical frame address
	isOffset                  // it is that address plus an offset
	register                  // in another register, plus an offset
	atExpression
	isExpression
)

// rule finds a register of the caller, or the canonical frame address: the stack pointer of the caller before its call.
type rule struct {
	kind       ruleKind
	reg        uint64
	offset     int64
	expression []byte
}

// row is the rules for one address.
type row struct {
	cfa, sp, fp, ra rule
	signal          bool
}

// machine executes the instructions of a description until it reaches an address (DWARF 5, section 6.4.2).
type machine struct {
	f       *fde
	cfa     rule
	regs    map[uint64]rule
	initial map[uint64]rule
	saved   []machineState
}

type machineState struct {
	cfa  rule
	regs map[uint64]rule
}

// maxSaved limits the states that are saved. Compilers nest none.
const maxSaved = 64

// row returns the rules for an address of the function.
func (f *fde) row(addr uint64) (row, error) {
	m := machine{f: f, regs: map[uint64]rule{}}
	if err := m.run(&cursor{b: f.instructions}, ^uint64(0)); err != nil {
		return row{}, err
	}
	m.initial = maps.Clone(m.regs)
	if err := m.run(&cursor{b: f.own}, addr); err != nil {
		return row{}, err
	}
	return row{m.cfa, m.regs[f.arch.sp], m.regs[f.arch.fp], m.regs[f.returnAddr], f.signal}, nil
}

// run executes instructions from the start of the function up to an address.
func (m *machine) run(c *cursor, until uint64) error {
	at := m.f.start
	for len(c.b) > 0 {
		op := c.u8()
		switch low := uint64(op & 0x3f); op & 0xc0 {
		case 0x40: // advance_loc
			at += low * m.f.codeAlign
		case 0x80: // offset
			m.regs[low] = rule{kind: atOffset, offset: int64(c.uleb()) * m.f.dataAlign}
		case 0xc0: // restore
			m.restore(low)
		default:
			step, err := m.execute(op, c)
			if err != nil {
				return err
			}
			at += step
		}
		if c.err != nil {
			return c.err
		}
		if at > until {
			return nil
		}
		if len(m.regs) > 256 {
			return fmt.Errorf("%w: too many registers", ErrMalformed)
		}
	}
	return nil
}

func (m *machine) restore(reg uint64) {
	if r, ok := m.initial[reg]; ok {
		m.regs[reg] = r
	} else {
		delete(m.regs, reg)
	}
}

// execute executes an instruction that has an operation code of its own, and returns by how much it advances the address.
func (m *machine) execute(op byte, c *cursor) (step uint64, err error) {
	factored := func() int64 { return int64(c.uleb()) * m.f.dataAlign }
	factoredSigned := func() int64 { return c.sleb() * m.f.dataAlign }
	switch op {
	case 0x00: // nop
	case 0x02, 0x03, 0x04: // advance_loc1, 2, 4
		return c.number(1<<(op-2)) * m.f.codeAlign, nil
	case 0x05: // offset_extended
		m.set(c.uleb(), atOffset, factored)
	case 0x06: // restore_extended
		m.restore(c.uleb())
	case 0x07: // undefined
		m.regs[c.uleb()] = rule{kind: undefined}
	case 0x08: // same_value
		m.regs[c.uleb()] = rule{kind: unchanged}
	case 0x09: // register
		m.regs[c.uleb()] = rule{kind: register, reg: c.uleb()}
	case 0x0a: // remember_state
		if len(m.saved) >= maxSaved {
			return 0, fmt.Errorf("%w: too many saved states", ErrMalformed)
		}
		m.saved = append(m.saved, machineState{m.cfa, maps.Clone(m.regs)})
	case 0x0b: // restore_state
		if len(m.saved) == 0 {
			return 0, fmt.Errorf("%w: no saved state", ErrMalformed)
		}
		last := m.saved[len(m.saved)-1]
		m.saved = m.saved[:len(m.saved)-1]
		m.cfa, m.regs = last.cfa, last.regs
	case 0x0c: // def_cfa
		m.cfa = rule{kind: register, reg: c.uleb(), offset: int64(c.uleb())}
	case 0x0d: // def_cfa_register
		m.cfa.reg = c.uleb()
	case 0x0e: // def_cfa_offset
		m.cfa.offset = int64(c.uleb())
	case 0x0f: // def_cfa_expression
		m.cfa = rule{kind: isExpression, expression: c.block()}
	case 0x10: // expression
		m.regs[c.uleb()] = rule{kind: atExpression, expression: c.block()}
	case 0x11: // offset_extended_sf
		m.set(c.uleb(), atOffset, factoredSigned)
	case 0x12: // def_cfa_sf
		m.cfa = rule{kind: register, reg: c.uleb(), offset: factoredSigned()}
	case 0x13: // def_cfa_offset_sf
		m.cfa.offset = factoredSigned()
	case 0x14: // val_offset
		m.set(c.uleb(), isOffset, factored)
	case 0x15: // val_offset_sf
		m.set(c.uleb(), isOffset, factoredSigned)
	case 0x16: // val_expression
		m.regs[c.uleb()] = rule{kind: isExpression, expression: c.block()}
	case 0x2d: // AARCH64_negate_ra_state: the signature is removed from every return address
	case 0x2e: // GNU_args_size
		c.uleb()
	default:
		return 0, fmt.Errorf("%w: instruction %#x", errRule, op)
	}
	return 0, nil
}

func (m *machine) set(reg uint64, kind ruleKind, offset func() int64) {
	m.regs[reg] = rule{kind: kind, offset: offset()}
}
