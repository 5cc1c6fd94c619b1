package goproc

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// typeNames reads the names of types from the memory of a process.
type typeNames struct {
	mu    sync.Mutex
	names map[uint64]string // by the address of the type
	spans []typeSpan        // nil until needed
}

// typeSpan is the memory with the types of one module (runtime.moduledata).
type typeSpan struct{ start, end uint64 }

const (
	maxTypeNames = 1 << 16
	maxTypeName  = 4096   // bytes
	extraStar    = 1 << 1 // abi.TFlagExtraStar: the name begins with a * that is not part of it
)

// nameLengths lists how releases encode the length of a name (reflect/type.go, internal/abi/type.go).
var nameLengths = []struct {
	since  int // the first release that encodes it this way, 1.x
	varint bool
}{
	{since: 12},
	{since: 17, varint: true},
}

// TypeName returns the name of the type whose descriptor is at an address, as package reflect prints it: "*main.T". The
// descriptor must belong to a module: the names of types that package reflect has created are not read.
func (p *Process) TypeName(addr uint64) (string, error) {
	t := &p.types
	t.mu.Lock()
	defer t.mu.Unlock()
	if name, ok := t.names[addr]; ok {
		return name, nil
	}
	if t.spans == nil {
		if err := p.readTypeSpans(); err != nil {
			return "", err
		}
	}
	for _, s := range t.spans {
		if addr < s.start || addr >= s.end {
			continue
		}
		name, err := p.readTypeName(addr, s)
		if err != nil {
			return "", fmt.Errorf("name of the type at %#x: %w", addr, err)
		}
		if t.names == nil || len(t.names) >= maxTypeNames {
			t.names = map[uint64]string{}
		}
		t.names[addr] = name
		return name, nil
	}
	return "", fmt.Errorf("process %d: no module has a type at %#x", p.pid, addr)
}

// readTypeSpans finds the types of all modules.
func (p *Process) readTypeSpans() error {
	var at [3]uint64
	for i, path := range []string{"runtime.moduledata.types", "runtime.moduledata.etypes", "runtime.moduledata.next"} {
		offset, err := p.layout.Offset(path)
		if err != nil {
			return err
		}
		at[i] = offset
	}
	addr := p.main.bin.Module().Addr + p.main.bias
	for n := 0; addr != 0 && n <= maxModules; n++ {
		var words [3]uint64
		for i, offset := range at {
			word, err := p.mem.u64(addr + offset)
			if err != nil {
				return err
			}
			words[i] = word
		}
		p.types.spans = append(p.types.spans, typeSpan{words[0], words[1]})
		addr = words[2]
	}
	return nil
}

// readTypeName reads the name of a type. What it reads need not be valid.
func (p *Process) readTypeName(addr uint64, in typeSpan) (string, error) {
	strAt, err := p.layout.Offset("runtime._type.str")
	if err != nil {
		return "", err
	}
	flagAt, err := p.layout.Offset("runtime._type.tflag")
	if err != nil {
		return "", err
	}
	var str [4]byte
	var flag [1]byte
	if err := p.mem.read(str[:], addr+strAt); err != nil {
		return "", err
	}
	if err := p.mem.read(flag[:], addr+flagAt); err != nil {
		return "", err
	}
	at := in.start + uint64(binary.LittleEndian.Uint32(str[:]))
	if at >= in.end || in.end-at < 3 {
		return "", fmt.Errorf("the name is at %#x, outside of the module's types", at)
	}
	b := make([]byte, min(maxTypeName, in.end-at))
	if err := p.mem.read(b, at); err != nil {
		return "", err
	}
	name, err := parseName(b, p.main.bin.Version().Minor)
	if err == nil && flag[0]&extraStar != 0 && len(name) > 1 {
		name = name[1:]
	}
	return name, err
}

// parseName returns the name that memory begins with: a byte with flags, the length, the text.
func parseName(b []byte, minor int) (string, error) {
	varint := false
	for _, l := range nameLengths {
		if minor >= l.since {
			varint = l.varint
		}
	}
	if len(b) < 3 {
		return "", fmt.Errorf("a name of %d bytes", len(b))
	}
	length, n := uint64(binary.BigEndian.Uint16(b[1:])), 2
	if varint {
		length, n = binary.Uvarint(b[1:])
	}
	if n <= 0 || length > uint64(len(b)-1-n) {
		return "", fmt.Errorf("a name of %d bytes, more than %d", length, len(b)-3)
	}
	return string(b[1+n:][:length]), nil
}
