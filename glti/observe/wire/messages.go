package wire

// Hello is the first message of a client.
type Hello struct {
	Magic   string
	Version uint64
}

// Start selects the events of the stream.
type Start struct {
	Events uint64 // bit e selects Event e
	Stack  uint64 // maximum number of addresses of a stack; 0 for no stacks
	System bool   // with the goroutines of the runtime
	Buffer uint64 // bytes of the buffer of the connection; 0 for the agent's default. The agent limits it
}

// List asks for the goroutines that exist.
type List struct{ Request uint64 }

// ReadMemory asks for the memory statistics.
type ReadMemory struct{ Request uint64 }

// Stop ends the stream. The agent sends what the program has recorded until then, and ends the connection.
type Stop struct{}

// Welcome describes the program.
type Welcome struct {
	Version   uint64
	PID       uint64
	GoVersion string
	OS, Arch  string
	Exe       string // path of the executable
	Module    string // path of the main module
	ModuleVer string
	Procs     uint64   // GOMAXPROCS
	Clock     int64    // the monotonic clock
	Unix      int64    // nanoseconds since the Unix epoch at the same moment
	Events    uint64   // the events that the agent has
	Reasons   []string // wait reasons by their numbers
	Tracer    []string // reasons of the execution tracer by their numbers
}

// Refused says why the agent ends the connection, in one line.
type Refused struct{ Why string }

// Started says when the stream began.
type Started struct{ Time int64 }

// Text is the next text of the table of texts.
type Text struct{ Text string }

// Frame is a call frame. Function and File are numbers of texts.
type Frame struct {
	Func, File uint64
	Line       uint64
}

// Site is the place of a go statement.
type Site struct {
	PC    uint64
	Frame Frame
}

// Func is a function that a goroutine starts. Line is that of its declaration.
type Func struct {
	PC    uint64
	Frame Frame
}

// Stack is a stack, innermost frame first, with inlined calls.
type Stack struct {
	ID        uint64
	Truncated bool
	Frames    []Frame
}

// Goroutine is a goroutine that exists.
type Goroutine struct {
	ID, Parent      uint64
	State           State
	Reason          uint64 // of a wait
	Wait            int64  // nanoseconds since the first garbage collection that found it waiting; 0 if unknown
	Thread          uint64 // 0 if unknown
	CreatedBy, Func uint64 // addresses of the go statement (a Site) and of the function (a Func); 0 if unknown
	Stack           uint64
	System          bool // it belongs to the runtime
}

// State is what a goroutine does.
type State uint8

// The states.
const (
	Runnable State = 1 + iota
	Running
	InSyscall
	Waiting
	Preempted
)

// Goroutines has some of the goroutines that exist, without those of agents.
type Goroutines struct {
	Request uint64
	List    []Goroutine
}

// GoroutinesEnd follows the last goroutines of a list.
type GoroutinesEnd struct {
	Request uint64
	Time    int64  // all goroutines had been read
	Agents  uint64 // goroutines of agents, which are not in the list and have no events
}

// End is sent when the program ends.
type End struct{ Code int64 }

func (*Hello) kind() byte         { return 'h' }
func (*Start) kind() byte         { return 's' }
func (*List) kind() byte          { return 'l' }
func (*ReadMemory) kind() byte    { return 'm' }
func (*Stop) kind() byte          { return 'p' }
func (*Welcome) kind() byte       { return 'W' }
func (*Refused) kind() byte       { return 'R' }
func (*Started) kind() byte       { return 'S' }
func (*Text) kind() byte          { return 'T' }
func (*Site) kind() byte          { return 'C' }
func (*Func) kind() byte          { return 'F' }
func (*Stack) kind() byte         { return 'K' }
func (*Goroutines) kind() byte    { return 'G' }
func (*GoroutinesEnd) kind() byte { return 'g' }
func (*End) kind() byte           { return 'X' }

func (m *Hello) encode(e *encoder) { e.text(m.Magic); e.uint(m.Version) }
func (m *Hello) decode(d *decoder) { m.Magic, m.Version = d.text(), d.uint() }

func (m *Start) encode(e *encoder) {
	e.uint(m.Events)
	e.uint(m.Stack)
	e.bool(m.System)
	e.uint(m.Buffer)
}
func (m *Start) decode(d *decoder) {
	m.Events, m.Stack, m.System, m.Buffer = d.uint(), d.uint(), d.bool(), d.uint()
}

func (m *List) encode(e *encoder) { e.uint(m.Request) }
func (m *List) decode(d *decoder) { m.Request = d.uint() }

func (m *ReadMemory) encode(e *encoder) { e.uint(m.Request) }
func (m *ReadMemory) decode(d *decoder) { m.Request = d.uint() }

func (*Stop) encode(*encoder) {}
func (*Stop) decode(*decoder) {}

func (m *Welcome) encode(e *encoder) {
	e.uint(m.Version)
	e.uint(m.PID)
	for _, s := range []string{m.GoVersion, m.OS, m.Arch, m.Exe, m.Module, m.ModuleVer} {
		e.text(s)
	}
	e.uint(m.Procs)
	e.int(m.Clock)
	e.int(m.Unix)
	e.uint(m.Events)
	for _, list := range [][]string{m.Reasons, m.Tracer} {
		e.uint(uint64(len(list)))
		for _, s := range list {
			e.text(s)
		}
	}
}

func (m *Welcome) decode(d *decoder) {
	m.Version, m.PID = d.uint(), d.uint()
	for _, s := range []*string{&m.GoVersion, &m.OS, &m.Arch, &m.Exe, &m.Module, &m.ModuleVer} {
		*s = d.text()
	}
	m.Procs, m.Clock, m.Unix, m.Events = d.uint(), d.int(), d.int(), d.uint()
	for _, list := range []*[]string{&m.Reasons, &m.Tracer} {
		for n := d.length(); n > 0; n-- {
			*list = append(*list, d.text())
		}
	}
}

func (m *Refused) encode(e *encoder) { e.text(m.Why) }
func (m *Refused) decode(d *decoder) { m.Why = d.text() }

func (m *Started) encode(e *encoder) { e.int(m.Time) }
func (m *Started) decode(d *decoder) { m.Time = d.int() }

func (m *Text) encode(e *encoder) { e.text(m.Text) }
func (m *Text) decode(d *decoder) { m.Text = d.text() }

func (f *Frame) encode(e *encoder) { e.uint(f.Func); e.uint(f.File); e.uint(f.Line) }
func (f *Frame) decode(d *decoder) { f.Func, f.File, f.Line = d.uint(), d.uint(), d.uint() }

func (m *Site) encode(e *encoder) { e.uint(m.PC); m.Frame.encode(e) }
func (m *Site) decode(d *decoder) { m.PC = d.uint(); m.Frame.decode(d) }

func (m *Func) encode(e *encoder) { e.uint(m.PC); m.Frame.encode(e) }
func (m *Func) decode(d *decoder) { m.PC = d.uint(); m.Frame.decode(d) }

func (m *Stack) encode(e *encoder) {
	e.uint(m.ID)
	e.bool(m.Truncated)
	e.uint(uint64(len(m.Frames)))
	for i := range m.Frames {
		m.Frames[i].encode(e)
	}
}

func (m *Stack) decode(d *decoder) {
	m.ID, m.Truncated = d.uint(), d.bool()
	for n := d.length(); n > 0; n-- {
		var f Frame
		f.decode(d)
		m.Frames = append(m.Frames, f)
	}
}

func (g *Goroutine) encode(e *encoder) {
	for _, n := range []uint64{g.ID, g.Parent, uint64(g.State), g.Reason, g.Thread, g.CreatedBy, g.Func, g.Stack} {
		e.uint(n)
	}
	e.int(g.Wait)
	e.bool(g.System)
}

func (g *Goroutine) decode(d *decoder) {
	g.ID, g.Parent, g.State, g.Reason, g.Thread = d.uint(), d.uint(), State(d.uint()), d.uint(), d.uint()
	g.CreatedBy, g.Func, g.Stack, g.Wait, g.System = d.uint(), d.uint(), d.uint(), d.int(), d.bool()
}

func (m *Goroutines) encode(e *encoder) {
	e.uint(m.Request)
	e.uint(uint64(len(m.List)))
	for i := range m.List {
		m.List[i].encode(e)
	}
}

func (m *Goroutines) decode(d *decoder) {
	m.Request = d.uint()
	for n := d.length(); n > 0 && !d.bad; n-- {
		var g Goroutine
		g.decode(d)
		m.List = append(m.List, g)
	}
}

func (m *GoroutinesEnd) encode(e *encoder) { e.uint(m.Request); e.int(m.Time); e.uint(m.Agents) }
func (m *GoroutinesEnd) decode(d *decoder) { m.Request, m.Time, m.Agents = d.uint(), d.int(), d.uint() }

func (m *End) encode(e *encoder) { e.int(m.Code) }
func (m *End) decode(d *decoder) { m.Code = d.int() }
