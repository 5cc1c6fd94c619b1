package codepatch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"github.com/loupe-go/loupe/internal/codepatch/insn"
)

const (
	x86Int3    = 0xCC
	x86JumpLen = 5 // of JMP and CALL with 32 bits of displacement
	// x86MaxDisplaced bounds the instructions that are displaced for one probe.
	x86MaxDisplaced = 6
)

func x86Branch(opcode byte, target uint64) piece {
	return piece{code: []byte{opcode, 0, 0, 0, 0}, form: relX86, field: 1, target: target}
}

func x86Jump(target uint64) piece { return x86Branch(0xE9, target) }
func x86Call(target uint64) piece { return x86Branch(0xE8, target) }

// amd64 plans the displacement of at least five bytes. Of the stretches that
// can be moved it takes the one with the fewest instructions before the site's,
// so that the function's entry stays as it is where that is possible, and the
// shortest of those.
func (p *planner) amd64() (*Displacement, error) {
	if err := p.understood(); err != nil {
		return nil, err
	}
	switch p.list[p.at].Flow {
	case insn.FlowCall:
		return p.amd64Call()
	case insn.FlowCallReg:
		return nil, errors.New("a call through a register is too short to be replaced by a call of the stub")
	}
	joins, err := p.joins()
	if err != nil {
		return nil, err
	}
	last := p.at
	if p.site.Kind == insn.SiteReturn {
		if joins[p.site.PC] {
			return nil, errors.New("a branch leads to the return")
		}
		if last--; last < 0 {
			return nil, errors.New("nothing precedes the return")
		}
	}
	best, err := p.amd64From(last, joins)
	for first := last - 1; first >= 0 && last-first < x86MaxDisplaced && (best == nil || best.rank() > 0); first-- {
		d, e := p.amd64From(first, joins)
		switch {
		case e == nil && (best == nil || d.rank() < best.rank()):
			best = d
		case e != nil && best == nil && first == last-1:
			err = fmt.Errorf("%w; with the previous instruction: %w", err, e)
		}
	}
	if p.site.Kind == insn.SiteReturn && (best == nil || best.rank() > 0) {
		if d, e := p.amd64Tail(joins); e == nil {
			return d, nil
		}
	}
	if p.site.Kind == insn.SiteStore && (best == nil || !best.Durable) {
		if d, e := p.amd64Before(joins); e == nil {
			return d, nil
		}
	}
	if best == nil {
		return nil, err
	}
	return best, nil
}

// amd64Before plans the displacement of the instruction before the site's, of which only the first byte is replaced: the
// others are the displacement of the jump. When another tracer removes a breakpoint, the kernel writes that byte of the
// file, and the instruction is what it was.
func (p *planner) amd64Before(joins map[uint64]bool) (*Displacement, error) {
	if p.at == 0 || joins[p.site.PC] {
		return nil, errors.New("no previous instruction, or a branch leads to the site")
	}
	i := p.list[p.at-1]
	if i.Len < x86JumpLen || i.Flow != insn.FlowNext || !i.SPKnown || i.SPMoved != 0 {
		return nil, fmt.Errorf("the instruction at %#x cannot be replaced by a jump", i.PC)
	}
	if err := p.tablesAvoid(p.at-1, p.at); err != nil {
		return nil, err
	}
	m, faults, err := p.amd64Move(i)
	if err != nil {
		return nil, err
	}
	d := p.displace(p.at-1, p.at-1)
	d.jump = piece{code: append([]byte{0xE9}, d.Old[1:x86JumpLen]...)}
	d.Fixed = i.PC + x86JumpLen + uint64(int64(int32(binary.LittleEndian.Uint32(d.Old[1:]))))
	d.Durable, d.MayFault, d.FlagsLive = true, faults, p.amd64FlagsLive(p.site.PC)
	d.before, d.after = []piece{m}, []piece{x86Jump(p.site.PC)}
	return d, nil
}

// amd64Tail plans the displacement of one instruction some way before a return. The stub also executes copies of those after it, up to
// the return: nothing else leads there.
func (p *planner) amd64Tail(joins map[uint64]bool) (*Displacement, error) {
	var tail []piece
	for n := p.at - 1; n > 0; n-- {
		i := p.list[n]
		if i.Flow != insn.FlowNext || joins[p.list[n+1].PC] {
			break
		}
		m, faults, err := p.amd64Move(i)
		if err != nil || faults || p.tablesAvoid(n, p.at) != nil {
			break
		}
		tail = append([]piece{m}, tail...)
		jump := p.amd64Jump(n, n)
		if i.Len < x86JumpLen || jump.code[0] != p.bytes(i)[0] {
			continue
		}
		d := p.displace(n, n)
		d.jump, d.Durable, d.FlagsLive = jump, true, p.amd64FlagsLive(p.site.PC)
		d.before, d.after = tail, []piece{x86Jump(p.site.PC)}
		return d, nil
	}
	return nil, errors.New("no instruction before the return can be replaced by a jump of its length")
}

// rank orders displacements of a site: the lowest is best.
func (d *Displacement) rank() int {
	n := 0
	for i, bad := range []bool{!d.Durable, d.AtEntry, d.MayFault} {
		if bad {
			n |= 1 << i
		}
	}
	return n
}

// understood checks that every instruction of the function is known: an unknown
// one may be a branch.
func (p *planner) understood() error {
	for _, i := range p.list {
		if !i.Valid {
			return fmt.Errorf("unknown instruction at %#x", i.PC)
		}
	}
	return nil
}

// joins returns the addresses within the function that something other than the
// instruction before them leads to, jump tables left out.
func (p *planner) joins() (map[uint64]bool, error) {
	joins := map[uint64]bool{}
	for _, pc := range p.f.Entries {
		joins[pc] = true
	}
	for _, i := range p.list {
		switch i.Flow {
		case insn.FlowCond, insn.FlowJump, insn.FlowCall:
			if !p.contains(i.Target) {
				continue
			}
			if _, ok := p.indexOf(i.Target); !ok {
				return nil, fmt.Errorf("the branch at %#x leads to %#x, which is inside an instruction", i.PC, i.Target)
			}
			joins[i.Target] = true
		}
	}
	return joins, nil
}

// amd64Call replaces a direct call by a call of the stub, which then jumps to
// the callee: the return address is the same.
func (p *planner) amd64Call() (*Displacement, error) {
	i := p.list[p.at]
	if i.Len != x86JumpLen {
		return nil, fmt.Errorf("a call of %d bytes cannot be replaced", i.Len)
	}
	d := p.displace(p.at, p.at)
	d.SPMoved += 8 // the return address
	d.jump, d.Durable = x86Call(0), true
	d.after = []piece{x86Jump(i.Target)}
	return d, nil
}

// amd64From plans a displacement that begins with list[first] and reaches past
// the site's instruction.
func (p *planner) amd64From(first int, joins map[uint64]bool) (*Displacement, error) {
	last, err := p.amd64Last(first)
	if err != nil {
		return nil, err
	}
	for n := first + 1; n <= last; n++ {
		if joins[p.list[n].PC] {
			return nil, fmt.Errorf("a branch leads to %#x, among the displaced instructions", p.list[n].PC)
		}
	}
	for pc := range joins {
		if _, ok := p.indexOf(pc); !ok && pc > p.list[first].PC && pc < p.list[last].Next() {
			return nil, fmt.Errorf("another function jumps to %#x, among the displaced instructions", pc)
		}
	}
	if err := p.tablesAvoid(first, last); err != nil {
		return nil, err
	}
	d := p.displace(first, last)
	d.jump = p.amd64Jump(first, last)
	d.Durable = first == last && d.jump.code[0] == d.Old[0]
	ended := false
	for n := first; n <= last && !ended; n++ {
		i := p.list[n]
		m, faults, err := p.amd64Move(i)
		if err != nil {
			return nil, err
		}
		d.MayFault = d.MayFault || faults
		if n < p.at || n == p.at && p.probesAfter() { // all of them at a return
			d.before = append(d.before, m)
		} else {
			d.after = append(d.after, m)
		}
		ended = i.Flow.EndsBlock()
	}
	if !ended {
		d.after = append(d.after, x86Jump(d.End))
	}
	next := p.list[p.at].PC
	if p.probesAfter() {
		next = p.list[p.at].Next()
	}
	d.FlagsLive = p.amd64FlagsLive(next)
	return d, nil
}

// amd64Jump returns the jump that replaces list[first:last+1]. Where that can be
// done it begins with the same byte: that is all that the kernel restores when
// another tracer removes a breakpoint there.
func (p *planner) amd64Jump(first, last int) piece {
	i := p.list[first]
	code := p.bytes(i)
	switch room := p.list[last].Next() - i.PC; {
	case code[0]&0xF0 == 0x40 && room > x86JumpLen: // JMP ignores REX prefixes
		return piece{code: []byte{code[0], 0xE9, 0, 0, 0, 0}, form: relX86, field: 2}
	case first == last && first == p.at && p.probesAfter() && code[0] == 0x0F && code[1] == 0x86 && p.comparesBefore(first):
		// JNO: the stack check compares two addresses, or an address and a small negative number (stackPreempt and its
		// kin), whose difference always fits a signed word.
		return piece{code: []byte{0x0F, 0x81, 0, 0, 0, 0}, form: relX86, field: 2}
	}
	return x86Jump(0)
}

// comparesBefore says whether the instruction before list[n] compares words of 64 bits.
func (p *planner) comparesBefore(n int) bool {
	if n == 0 {
		return false
	}
	x, ok := p.x86(p.list[n-1])
	return ok && x.Op == x86asm.CMP && x.DataSize == 64
}

// x86 decodes an instruction. ok is false if its meaning is unknown.
func (p *planner) x86(i insn.Instruction) (x x86asm.Inst, ok bool) {
	if i.VEX {
		return x, false
	}
	x, err := x86asm.Decode(p.bytes(i), 64)
	return x, err == nil && x.Len == i.Len
}

// amd64Last returns the last instruction to displace when the first is given:
// enough for a jump, and the site's own among them, or at a return all that
// precedes it. After an instruction that never goes on only padding is taken.
func (p *planner) amd64Last(first int) (int, error) {
	room, ended := 0, false
	if p.site.Kind == insn.SiteReturn {
		room = int(p.site.PC - p.list[first].PC)
		if room < x86JumpLen {
			return 0, fmt.Errorf("the %d bytes before the return are too few for a jump", room)
		}
		for _, i := range p.list[first:p.at] {
			if i.Flow != insn.FlowNext {
				return 0, fmt.Errorf("the code before the site does not continue after %#x", i.PC)
			}
		}
		return p.at - 1, nil
	}
	for n := first; n < len(p.list); n++ {
		i := p.list[n]
		if ended && p.bytes(i)[0] != x86Int3 {
			return 0, fmt.Errorf("%d bytes are too few for a jump, and other code follows at %#x", room, i.PC)
		}
		room += i.Len
		ended = ended || i.Flow.EndsBlock()
		if n < p.at && ended {
			return 0, fmt.Errorf("the code before the site does not continue after %#x", i.PC)
		}
		if n >= p.at && room >= x86JumpLen {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%d bytes at %#x are too few for a jump, and the function ends there", room, p.list[first].PC)
}

// amd64Move makes an instruction fit for another place. faults says that it
// accesses memory through a pointer of which nothing is known.
func (p *planner) amd64Move(i insn.Instruction) (m piece, faults bool, err error) {
	code := p.bytes(i)
	x, ok := p.x86(i)
	if !ok {
		return m, false, fmt.Errorf("unknown instruction at %#x", i.PC)
	}
	refuse := func(why string) (piece, bool, error) {
		return piece{}, false, fmt.Errorf("%s at %#x %s", x.Op, i.PC, why)
	}
	for _, prefix := range x.Prefix {
		if prefix&0xFF == x86asm.PrefixAddrSize&0xFF {
			return refuse("uses 32-bit addresses")
		}
	}
	switch _, known := x86Ops[x.Op]; {
	case i.Flow == insn.FlowCall || i.Flow == insn.FlowCallReg:
		return refuse("would leave a return address in the stub")
	case !known:
		return refuse("is not an instruction that can be moved")
	}
	m.code = append([]byte(nil), code...)
	switch i.Flow {
	case insn.FlowJump:
		return x86Jump(i.Target), false, nil
	case insn.FlowCond:
		cc, ok := x86Condition(code)
		if !ok {
			return refuse("has no form with a 32-bit displacement")
		}
		return piece{code: []byte{0x0F, 0x80 | cc, 0, 0, 0, 0}, form: relX86, field: 2, target: i.Target}, false, nil
	}
	if i.PCRelField != 0 {
		m.form, m.field, m.target = relX86, i.PCRelField, i.PCRelAddr
		if x86RelativeOf(x) != i.PCRelField {
			return refuse("has an unknown operand")
		}
	} else if x86RelativeOf(x) != 0 {
		return refuse("has an unknown operand")
	}
	return m, p.amd64Faults(x), nil
}

// x86Condition returns the condition of a conditional jump.
func x86Condition(code []byte) (cc byte, ok bool) {
	switch {
	case len(code) == 2 && code[0]&0xF0 == 0x70:
		return code[0] & 0xF, true
	case len(code) == 6 && code[0] == 0x0F && code[1]&0xF0 == 0x80:
		return code[1] & 0xF, true
	}
	return 0, false
}

// x86RelativeOf returns where the other decoder sees a displacement relative to
// the program counter, or 0.
func x86RelativeOf(x x86asm.Inst) int {
	for _, a := range x.Args {
		if m, ok := a.(x86asm.Mem); ok && m.Base == x86asm.RIP {
			return x.PCRelOff
		}
	}
	return 0
}

// amd64Faults says whether x accesses memory other than the stack, the current
// g, the site's object, thread-local storage and static data.
func (p *planner) amd64Faults(x x86asm.Inst) bool {
	if x.Op == x86asm.LEA || x.Op == x86asm.NOP {
		return false
	}
	for _, a := range x.Args {
		m, ok := a.(x86asm.Mem)
		if !ok || m.Segment == x86asm.FS {
			continue
		}
		known := m.Base == x86asm.RSP || m.Base == x86asm.RBP || m.Base == x86asm.RIP ||
			p.site.GReg != "" && m.Base.String() == p.site.GReg || p.site.Object != "" && m.Base.String() == p.site.Object
		if !known || m.Index != 0 {
			return true
		}
	}
	return false
}
