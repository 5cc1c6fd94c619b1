package goproc

import "fmt"

// Image reads n bytes at an address in the image of the executable, from the memory of the process. It is for constants, types and method tables: the program may
// not have accessed their pages yet, so that a probe cannot read them.
func (p *Process) Image(addr uint64, n int) ([]byte, error) {
	for _, s := range p.main.bin.Segments() {
		start := s.Addr + p.main.bias
		if !s.Readable || addr < start || addr-start >= s.Size || s.Size-(addr-start) < uint64(n) {
			continue
		}
		b := make([]byte, n)
		if err := p.mem.read(b, addr); err != nil {
			return nil, err
		}
		return b, nil
	}
	return nil, fmt.Errorf("process %d: %#x+%d is not in the image of the executable", p.pid, addr, n)
}

// Unbuffered reports whether there is a channel without a buffer at an address. The channel must be reachable.
func (p *Process) Unbuffered(channel uint64) bool {
	const size = 8 // offset of runtime.hchan.dataqsiz, after qcount, in each release
	var head [2 * size]byte
	if err := p.mem.read(head[:], channel); err != nil {
		return false
	}
	return head == [len(head)]byte{}
}

// FuncName returns the name of the function at an address, or an empty string.
func (p *Process) FuncName(pc uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.symbols.lookup(pc)
	if !info.known {
		return ""
	}
	return info.fn.Name
}
