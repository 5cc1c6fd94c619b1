package insn

// Ref is one place in a function that refers to static data.
type Ref struct {
	PC    uint64 // the instruction that refers
	Addr  uint64 // what it refers to
	Size  int    // width of the access in bytes; 0: only the address is taken, or the width is not known
	Read  bool   // the instruction reads memory at Addr
	Write bool   // the instruction writes memory at Addr
	// Imm is the constant stored at Addr, or the constant that the value read
	// from Addr is first compared with; nil when there is none or it is not known.
	Imm *int64
	// Op is the instruction's mnemonic: x86asm's on amd64, the architecture
	// manual's on arm64. It is empty for an instruction that is not understood,
	// as all with VEX or EVEX prefixes; such a Ref is neither Read nor Write.
	Op string
	// Index says that a variable index is added to Addr: Addr lies within the
	// first element of an array.
	Index bool
}

// AddressTaken says whether the instruction only computes the address.
func (r Ref) AddressTaken() bool { return r.Op != "" && !r.Read && !r.Write }

// Refs returns the references of c to static data, in order of address: memory
// operands and computed addresses relative to the program counter, absolute
// addresses, and accesses through a register that holds such an address. A
// pair access of arm64 gives two references.
//
// Registers are followed along straight code; what they hold is forgotten
// where another branch of the function joins. Joins by way of a jump table are
// not seen, as the table is data: there a reference can be attributed to the
// value a register held on the other way in.
func Refs(c Code) ([]Ref, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	t := &tracker{code: c}
	joins := branchTargets(c)
	if c.Arch == ARM64 {
		t.arm64(joins)
	} else {
		t.amd64(joins)
	}
	return t.refs, nil
}

// content is what is known about a register.
type content struct {
	kind contentKind
	val  uint64 // the constant or the address
	ref  int    // for loaded: index of the reference that read it
}

type contentKind uint8

const (
	unknown  contentKind = iota
	constant             // val
	page                 // val is the page of an address: ADRP before its other half
	address              // val is a static address
	indexed              // val plus something variable
	loaded               // the value of static memory, see ref
)

// pointer says whether memory reached through the register is at a known base.
func (v content) pointer() bool { return v.kind == page || v.kind == address || v.kind == indexed }

// plus returns the content after adding a constant.
func (v content) plus(n int64) content {
	switch v.kind {
	case constant, indexed, address:
		v.val += uint64(n)
		return v
	case page:
		return content{kind: address, val: v.val + uint64(n)}
	}
	return content{}
}

// plusVariable returns the content after adding a register that holds w.
func (v content) plusVariable(w content) content {
	if v.kind == unknown || v.kind == loaded || w.kind == address {
		v, w = w, v
	}
	switch {
	case w.kind == constant:
		return v.plus(int64(w.val))
	case v.kind == address || v.kind == indexed:
		return content{kind: indexed, val: v.val}
	}
	return content{}
}

// tracker follows the registers through a function and collects references.
type tracker struct {
	code Code
	refs []Ref
	reg  [32]content
}

func (t *tracker) forgetAll() { t.reg = [32]content{} }

// forget drops the registers in mask.
func (t *tracker) forget(mask uint32) {
	for r := 0; mask != 0; r, mask = r+1, mask>>1 {
		if mask&1 != 0 {
			t.reg[r] = content{}
		}
	}
}

// add records a reference and returns its index.
func (t *tracker) add(r Ref) int {
	t.refs = append(t.refs, r)
	return len(t.refs) - 1
}

// compare notes that register r is compared with the constant n.
func (t *tracker) compare(r int, n int64) {
	if v := t.reg[r]; v.kind == loaded && t.refs[v.ref].Imm == nil {
		t.refs[v.ref].Imm = &n
	}
}

// stored returns the constant in register r as the immediate of a store.
func (t *tracker) stored(r int) *int64 {
	if v := t.reg[r]; v.kind == constant {
		n := int64(v.val)
		return &n
	}
	return nil
}
