package gobin

import "github.com/loupe-go/loupe/internal/codepatch/insn"

// PrologueSite returns the cheapest place for a probe that observes the calls of a function. The first words argument
// words are still where the caller has put them. See insn.EntrySite.
func (b *Binary) PrologueSite(f Func, words int) (insn.Site, error) {
	c, err := b.code(f)
	if err != nil {
		return insn.Site{}, err
	}
	site, err := insn.EntrySite(c, b.version.Minor, words)
	if err != nil {
		return insn.Site{}, b.errorf("probe site of %s: %w", f.Name, err)
	}
	return site, nil
}

// LaterSites returns the places after a function's entry that every call executes exactly once. The first words
// argument words are still where the caller has put them. See insn.LaterSites.
func (b *Binary) LaterSites(f Func, words int) ([]insn.Site, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	throw, _ := b.LookupFunc("runtime.throw")
	sites, err := insn.LaterSites(c, b.version.Minor, words, throw.Entry)
	if err != nil {
		return nil, b.errorf("probe sites of %s: %w", f.Name, err)
	}
	return sites, nil
}

// StoreSites returns the instructions that store a word at an offset in an object and that every call of a function
// executes exactly once. See insn.StoreSites.
func (b *Binary) StoreSites(f Func, offset int64) ([]insn.Site, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	sites, err := insn.StoreSites(c, b.version.Minor, offset)
	if err != nil {
		return nil, b.errorf("stores of %s: %w", f.Name, err)
	}
	return sites, nil
}

// CallSites returns the direct calls that a function makes.
func (b *Binary) CallSites(f Func) ([]insn.Call, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	calls, err := insn.Calls(c)
	if err != nil {
		return nil, b.errorf("calls of %s: %w", f.Name, err)
	}
	return calls, nil
}

// ReturnSites returns the places where a function returns to its caller.
func (b *Binary) ReturnSites(f Func) ([]insn.Return, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	returns, err := insn.Returns(c)
	if err != nil {
		return nil, b.errorf("returns of %s: %w", f.Name, err)
	}
	return returns, nil
}

// Exits returns the calls before the return instructions of a function, and where its first words result words are on the
// stack. See insn.Exits.
func (b *Binary) Exits(f Func, words int) (exits []insn.Exit, ok bool, err error) {
	c, err := b.code(f)
	if err != nil {
		return nil, false, err
	}
	exits, ok = insn.Exits(c, words)
	return exits, ok, nil
}

// AfterCall returns two places after a call instruction of a function where the first words result words of the call are in
// registers, or none. See insn.AfterCall.
func (b *Binary) AfterCall(f Func, pc uint64, words int) ([]insn.Site, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	sites, err := insn.AfterCall(c, b.version.Minor, words, pc)
	if err != nil {
		return nil, b.errorf("places after calls of %s: %w", f.Name, err)
	}
	return sites, nil
}

// LocalArg returns the offset from the stack pointer of the variable of a function whose address is argument word n of the call at pc.
// See insn.LocalArg.
func (b *Binary) LocalArg(f Func, pc uint64, n int) (offset int, ok bool, err error) {
	c, err := b.code(f)
	if err != nil {
		return 0, false, err
	}
	offset, ok = insn.LocalArg(c, b.version.Minor, pc, n)
	return offset, ok, nil
}

// Ahead returns the instructions at which a function first arrives after the call at pc and that are suitable. See insn.Ahead.
func (b *Binary) Ahead(f Func, pc uint64, local int, suitable func(insn.Place) bool) ([]insn.Site, error) {
	c, err := b.code(f)
	if err != nil {
		return nil, err
	}
	return insn.Ahead(c, b.version.Minor, pc, local, suitable), nil
}

// StackMoved returns how many bytes the stack pointer is below its value at the entry of a function, at the instruction at pc.
// ok is false if that is not the same for all ways to the instruction.
func (b *Binary) StackMoved(f Func, pc uint64) (moved int, ok bool, err error) {
	c, err := b.code(f)
	if err != nil {
		return 0, false, err
	}
	moved, ok = insn.StackMoved(c, pc)
	return moved, ok, nil
}

// TLSOffset returns the offset of the current g in thread-local storage, in bytes from the thread pointer. Since Go 1.17 Go
// code has g in a register too. The result is false on arm64, and for shared libraries, where the loader sets the offset.
func (b *Binary) TLSOffset() (int64, bool) {
	f, ok := b.LookupFunc("runtime.systemstack")
	if !ok {
		return 0, false
	}
	c, err := b.code(f)
	if err != nil {
		return 0, false
	}
	return insn.TLSOffset(c)
}

// FileOffset returns the offset in the file of the byte at an address, as required by uprobes. The result is false if
// the file does not contain it.
func (b *Binary) FileOffset(addr uint64) (uint64, bool) {
	s, ok := b.image.segmentOf(addr)
	if !ok || addr-s.addr >= s.filesz {
		return 0, false
	}
	return s.off + (addr - s.addr), true
}

func (b *Binary) code(f Func) (insn.Code, error) {
	code, err := b.Code(f)
	if err != nil {
		return insn.Code{}, err
	}
	return insn.Code{Arch: b.arch, Entry: f.Entry, Bytes: code}, nil
}
