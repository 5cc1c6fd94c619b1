package gobin

import "github.com/loupe-go/loupe/internal/codepatch/insn"

// PrologueSite returns the cheapest place in a function to see its calls, with its first words argument words still
// where the caller puts them. See insn.EntrySite.
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

// LaterSites returns the places behind a function's entry that every call passes once, with its first words argument words
// still where the caller puts them. See insn.LaterSites.
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

// StoreSites returns the instructions that store a word at an offset in an object and that every call of a function passes
// once. See insn.StoreSites.
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

// TLSOffset returns where in thread-local storage the current g is, in bytes from the thread pointer; false for releases
// that keep it in a register, where nobody needs to know.
func (b *Binary) TLSOffset() (int64, bool) {
	f, ok := b.LookupFunc("runtime.gopark")
	if !ok {
		return 0, false
	}
	c, err := b.code(f)
	if err != nil {
		return 0, false
	}
	return insn.TLSOffset(c)
}

// FileOffset returns where in the file the byte at an address is, as uprobes name places; false when the file does not
// hold it.
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
