package trace

// modelStatus is what a goroutine or a P does, as a trace tells it.
type modelStatus uint8

// What goroutines do.
const (
	modelGoBad modelStatus = iota
	modelGoRunnable
	modelGoRunning
	modelGoSyscall
	modelGoWaiting
	modelGoStatuses // how many there are

	modelGoEnded modelStatus = 0xff // of a modelGo that is kept to know its ID again
)

// What Ps do.
const (
	modelProcBad modelStatus = iota
	modelProcRunning
	modelProcIdle
	modelProcSyscall
	modelProcAbandoned // in a system call, and the thread has gone its own way
	modelProcStatuses
)

func modelGoStatusName(s modelStatus) string {
	switch s {
	case modelGoRunnable:
		return "runnable"
	case modelGoRunning:
		return "running"
	case modelGoSyscall:
		return "in a system call"
	case modelGoWaiting:
		return "waiting"
	case modelGoEnded:
		return "ended"
	}
	return "in no known state"
}

func modelProcStatusName(s modelStatus) string {
	switch s {
	case modelProcRunning:
		return "running"
	case modelProcIdle:
		return "idle"
	case modelProcSyscall:
		return "in a system call"
	case modelProcAbandoned:
		return "abandoned in a system call"
	}
	return "in no known state"
}

// A modelSeq is a sequence number: it holds in one generation.
type modelSeq struct {
	gen, n uint64
	// unsure is set after an event that could not come next, which has the number written. Whether it was one too many, or
	// its number or the others are wrong, the next event will show.
	unsure  bool
	written uint64
}

// precedes reports whether the number is the one before n.
func (s *modelSeq) precedes(gen, n uint64) bool {
	return s.gen == gen && (s.n+1 == n || s.unsure && (s.n+2 == n || s.written+1 == n))
}

// set takes the number of an event that has the right one.
func (s *modelSeq) set(gen, n uint64) { *s = modelSeq{gen: gen, n: n} }

// force takes the number of an event that cannot come next.
func (s *modelSeq) force(gen, n uint64) {
	if s.gen != gen {
		s.set(gen, n)
		return
	}
	s.unsure, s.written = true, n
}

// A modelGo is a goroutine.
type modelGo struct {
	id     uint64 // modelNone when it is not in use
	seq    modelSeq
	status modelStatus
	assist bool // it helps the collector
	stops  []modelStop
	// regions are those under way, the innermost last.
	regions []modelRegion
	// thread is where it ran last.
	thread *modelThread
	// since is for the one who reads: when its system call began, 0 if that is not known.
	since int64
}

// A modelStop is a stop of the world.
type modelStop struct{ kind uint64 }

// A modelRegion is a region of runtime/trace.
type modelRegion struct {
	task uint64
	name string
}

// A modelProc is a P.
type modelProc struct {
	id     uint64
	seq    modelSeq
	status modelStatus
	sweeps bool
	// thread is the one that took it last.
	thread *modelThread
}

// A modelThread is an M.
type modelThread struct {
	id uint64
	// pid and gid are its P and goroutine, modelNone if it has none. p and g are these then; g only as long as g.id is gid.
	pid, gid uint64
	p        *modelProc
	g        *modelGo
	// seen is set once the turn has come to an event of it.
	seen bool
	// unsureP and unsureG are set when it should have a P or goroutine and has none, which was told.
	unsureP, unsureG bool
}

// modelGC is what is known of the collector.
type modelGC struct {
	seq   modelSeq // its generation is always 0: it goes on from one to the next
	state modelGCState
}

type modelGCState uint8

const (
	modelGCUnknown modelGCState = iota
	modelGCOff
	modelGCOn
)

// current returns the goroutine of a thread; nil when it has none or there is no such goroutine.
func (md *model) current(t *modelThread) *modelGo {
	if t.gid == modelNone {
		return nil
	}
	if t.g.id == t.gid {
		return t.g
	}
	return md.gos.find(t.gid)
}

// goroutine returns the goroutine with an ID; nil when there is none.
func (md *model) goroutine(id uint64) *modelGo {
	g := md.gos.find(id)
	if g != nil && g.status == modelGoEnded {
		return nil
	}
	return g
}

// newGo adds a goroutine.
func (md *model) newGo(id uint64, status modelStatus) *modelGo {
	g := md.gos.find(id)
	if g == nil {
		if n := len(md.freeGos); n > 0 {
			g, md.freeGos = md.freeGos[n-1], md.freeGos[:n-1]
		} else {
			g = &modelGo{}
		}
		md.gos.add(id, g)
	}
	*g = modelGo{id: id, status: status, seq: modelSeq{gen: md.number}, stops: g.stops[:0], regions: g.regions[:0]}
	return g
}

// endGo removes a goroutine.
func (md *model) endGo(g *modelGo) {
	if md.checks {
		g.status = modelGoEnded
		md.ended = append(md.ended, g)
		return
	}
	md.gos.remove(g.id)
	md.freeGo(g)
}

func (md *model) freeGo(g *modelGo) {
	g.id = modelNone
	clear(g.regions)
	md.freeGos = append(md.freeGos, g)
}

// forget removes the goroutines that had ended when the generation before last began.
func (md *model) forget() {
	for _, g := range md.ended {
		if g.status == modelGoEnded && g.id != modelNone {
			md.gos.remove(g.id)
			md.freeGo(g)
		}
	}
	md.ended = md.ended[:0]
}

// bindGo makes a thread run a goroutine.
func (t *modelThread) bindGo(g *modelGo) {
	t.gid, t.g = g.id, g
	g.thread = t
}

// bindProc gives a thread a P.
func (t *modelThread) bindProc(p *modelProc) {
	t.pid, t.p = p.id, p
	p.thread = t
}

// newProc adds a P.
func (md *model) newProc(id uint64, status modelStatus) *modelProc {
	p := &modelProc{id: id, status: status, seq: modelSeq{gen: md.number}}
	md.procs.add(id, p)
	return p
}
