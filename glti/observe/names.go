package observe

import (
	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

// maxNames is the maximum number of texts, and of places and stacks each, that are sent to a client. Further ones are unknown. Real programs
// have far fewer.
const maxNames = 1 << 18

// names are the texts, places and stacks that a client has received. Each is sent once, before its first use.
type names struct {
	out    func(wire.Message) // sends a message
	texts  map[string]uint64
	places map[uintptr]bool // go statements
	funcs  map[uintptr]bool // functions that goroutines start
	stacks map[uint64]bool
	depth  int
}

func newNames(depth int, out func(wire.Message)) *names {
	return &names{out: out, texts: map[string]uint64{"": 0}, places: map[uintptr]bool{}, funcs: map[uintptr]bool{}, stacks: map[uint64]bool{}, depth: depth}
}

func (n *names) text(s string) uint64 {
	if id, ok := n.texts[s]; ok {
		return id
	}
	if len(n.texts) > maxNames {
		return 0
	}
	id := uint64(len(n.texts))
	n.texts[s] = id
	n.out(&wire.Text{Text: s})
	return id
}

// place returns the address of a go statement, which the client then knows, or 0.
func (n *names) place(pc uint64) uint64 {
	at := uintptr(pc)
	if pc == 0 || n.places[at] {
		return pc
	}
	calls := glti.Calls(at - 1)
	if len(calls) == 0 || len(n.places) >= maxNames {
		return 0
	}
	// As tracebacks do, the function that contains the code, with the line of the statement.
	outer := calls[len(calls)-1]
	n.places[at] = true
	n.out(&wire.Site{PC: pc, Frame: wire.Frame{Func: n.text(outer.Func), File: n.text(calls[0].File), Line: uint64(calls[0].Line)}})
	return pc
}

// start returns the address of the function of a go statement, which the client then knows, or 0.
func (n *names) start(pc uint64) uint64 {
	at := uintptr(pc)
	if pc == 0 || n.funcs[at] {
		return pc
	}
	calls := glti.Calls(glti.StartFunc(at))
	if len(calls) == 0 || len(n.funcs) >= maxNames {
		return 0
	}
	f := calls[len(calls)-1]
	n.funcs[at] = true
	n.out(&wire.Func{PC: pc, Frame: wire.Frame{Func: n.text(f.Func), File: n.text(f.File), Line: uint64(f.Start)}})
	return pc
}

// stack returns the ID of a stack, which the client then knows, or 0.
func (n *names) stack(id uint64) uint64 {
	if id == 0 || n.stacks[id] {
		return id
	}
	if len(n.stacks) >= maxNames {
		return 0
	}
	var pcs [wire.MaxStack]uintptr
	count := glti.StackPCs(id, pcs[:])
	if count == 0 {
		return 0
	}
	m := wire.Stack{ID: id}
	last := ""
	for _, pc := range pcs[:count] {
		for _, f := range glti.Calls(pc - 1) {
			if !f.Wrapper || panics[last] {
				m.Frames = append(m.Frames, wire.Frame{Func: n.text(f.Func), File: n.text(f.File), Line: uint64(f.Line)})
			}
			last = f.Func
		}
	}
	m.Truncated = count >= n.depth && last != "runtime.goexit"
	n.stacks[id] = true
	n.out(&m)
	return id
}

// panics are the functions whose wrappers are shown: the wrapper is where the program panicked.
var panics = map[string]bool{"runtime.gopanic": true, "runtime.sigpanic": true, "runtime.panicwrap": true}
