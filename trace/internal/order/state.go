package order

import (
	"github.com/loupe-go/loupe/trace/internal/generation"
)

// A Status is what a goroutine or a P does, as a trace tells it.
type Status uint8

// What goroutines do.
const (
	goBad Status = iota
	GoRunnable
	GoRunning
	GoSyscall
	GoWaiting
	goStatuses // how many there are

	goEnded Status = 0xff // of a Goroutine that is kept to know its ID again
)

// What Ps do.
const (
	procBad Status = iota
	procRunning
	procIdle
	procSyscall
	procAbandoned // in a system call, and the thread has gone its own way
	procStatuses
)

func goStatusName(s Status) string {
	switch s {
	case GoRunnable:
		return "runnable"
	case GoRunning:
		return "running"
	case GoSyscall:
		return "in a system call"
	case GoWaiting:
		return "waiting"
	case goEnded:
		return "ended"
	}
	return "in an unknown state"
}

func procStatusName(s Status) string {
	switch s {
	case procRunning:
		return "running"
	case procIdle:
		return "idle"
	case procSyscall:
		return "in a system call"
	case procAbandoned:
		return "abandoned in a system call"
	}
	return "in an unknown state"
}

// A sequence is a sequence number: it holds in one generation.
type sequence struct {
	gen, n uint64
	// unsure is set after an event that could not come next, which has the number written. Whether it was one too many, or
	// its number or the others are wrong, the next event will show.
	unsure  bool
	written uint64
}

// precedes reports whether the number is the one before n.
func (s *sequence) precedes(gen, n uint64) bool {
	return s.gen == gen && (s.n+1 == n || s.unsure && (s.n+2 == n || s.written+1 == n))
}

// set takes the number of an event that has the right one.
func (s *sequence) set(gen, n uint64) { *s = sequence{gen: gen, n: n} }

// force takes the number of an event that cannot come next.
func (s *sequence) force(gen, n uint64) {
	if s.gen != gen {
		s.set(gen, n)
		return
	}
	s.unsure, s.written = true, n
}

// A Goroutine is a goroutine.
type Goroutine struct {
	ID     uint64 // generation.None when it is not in use
	seq    sequence
	status Status
	assist bool // it helps the collector
	stops  []stop
	// regions are those under way, the innermost last.
	regions []region
	// thread is where it ran last.
	thread *Thread
	// Since is for the user of the model: when the system call began, 0 if that is not known.
	Since int64
}

// A stop is a stop of the world.
type stop struct{ kind uint64 }

// A region is a region of runtime/trace.
type region struct {
	task uint64
	name string
}

// A Proc is a P.
type Proc struct {
	id     uint64
	seq    sequence
	status Status
	sweeps bool
	// thread is the one that took it last.
	thread *Thread
}

// A Thread is an M.
type Thread struct {
	id uint64
	// pid and gid are its P and goroutine, generation.None if it has none. p and g are these then; g only as long as g.id is gid.
	pid, gid uint64
	p        *Proc
	G        *Goroutine
	// seen is set once the turn has come to an event of it.
	seen bool
	// unsureP and unsureG are set when it should have a P or goroutine and has none, which was told.
	unsureP, unsureG bool
}

// collector is what is known of the collector.
type collector struct {
	seq   sequence // its generation is always 0: it goes on from one to the next
	state gcState
}

type gcState uint8

const (
	gcUnknown gcState = iota
	gcOff
	gcOn
)

// current returns the goroutine of a thread; nil when it has none or there is no such goroutine.
func (md *Model) current(t *Thread) *Goroutine {
	if t.gid == generation.None {
		return nil
	}
	if t.G.ID == t.gid {
		return t.G
	}
	return md.gos.Find(t.gid)
}

// goroutine returns the goroutine with an ID; nil when there is none.
func (md *Model) goroutine(id uint64) *Goroutine {
	g := md.gos.Find(id)
	if g != nil && g.status == goEnded {
		return nil
	}
	return g
}

// newGo adds a goroutine.
func (md *Model) newGo(id uint64, status Status) *Goroutine {
	g := md.gos.Find(id)
	if g == nil {
		if n := len(md.freeGos); n > 0 {
			g, md.freeGos = md.freeGos[n-1], md.freeGos[:n-1]
		} else {
			g = &Goroutine{}
		}
		md.gos.Add(id, g)
	}
	*g = Goroutine{ID: id, status: status, seq: sequence{gen: md.number}, stops: g.stops[:0], regions: g.regions[:0]}
	return g
}

// endGo removes a goroutine.
func (md *Model) endGo(g *Goroutine) {
	if md.checks {
		g.status = goEnded
		md.ended = append(md.ended, g)
		return
	}
	md.gos.Remove(g.ID)
	md.freeGo(g)
}

func (md *Model) freeGo(g *Goroutine) {
	g.ID = generation.None
	clear(g.regions)
	md.freeGos = append(md.freeGos, g)
}

// forget removes the goroutines that had ended when the generation before last began.
func (md *Model) forget() {
	for _, g := range md.ended {
		if g.status == goEnded && g.ID != generation.None {
			md.gos.Remove(g.ID)
			md.freeGo(g)
		}
	}
	md.ended = md.ended[:0]
}

// bindGo makes a thread run a goroutine.
func (t *Thread) bindGo(g *Goroutine) {
	t.gid, t.G = g.ID, g
	g.thread = t
}

// bindProc gives a thread a P.
func (t *Thread) bindProc(p *Proc) {
	t.pid, t.p = p.id, p
	p.thread = t
}

// newProc adds a P.
func (md *Model) newProc(id uint64, status Status) *Proc {
	p := &Proc{id: id, status: status, seq: sequence{gen: md.number}}
	md.procs.Add(id, p)
	return p
}
