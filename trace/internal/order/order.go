package order

import (
	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/idtable"
	"github.com/loupe-go/loupe/trace/internal/memory"
	"github.com/loupe-go/loupe/trace/internal/problem"
	"github.com/loupe-go/loupe/trace/raw"
)

// A Model puts the events of a trace into an order in which they can have happened, by following what goroutines, Ps and
// threads do. The rules are those of the toolchain's reader (internal/trace/order.go in the Go tree), so that the order is
// the same: the earliest event is next, unless something must come before it that the trace tells by its sequence numbers
// and states.
//
// With a list of problems the model goes on after each, and believes what is written then. Without, it ends at the first
// Error.
type Model struct {
	Version raw.Version
	specs   []raw.Spec // of the version
	Judge   problem.Judge
	lenient bool // judge has a list
	checks  bool // look for what is worth a Warning too

	gos     idtable.Table[Goroutine]
	procs   idtable.Table[Proc]
	threads idtable.Table[Thread]
	tasks   map[uint64]struct{} // those of runtime/trace that are under way
	gc      collector
	freeGos []*Goroutine
	ended   []*Goroutine // in the generation, if checks is set

	gen     *generation.Generation
	number  uint64 // of gen
	initial uint64 // number of the first generation that has events
	started bool   // that has come
	Begun   int    // generations so far
	// sightLost is the generation, counted from 1, in which parts were last missing; 0 if never.
	sightLost int

	frontier frontier
	cursors  []Cursor
	moved    int                 // index in frontier of the thread whose event was the last; -1 if none
	Samples  []generation.Sample // of the CPU profiler, those that have not been taken
	patience int64

	noThread Thread // of batches of no thread
	// forced is set while an event must be taken that cannot come next.
	forced bool

	// What is known of the last event besides its arguments.
	Context     Context
	FirstStatus bool // a status that is the first one of its goroutine or P
	StolenProc  bool // a P was taken away implicitly
}

// A Context is where an event happened: before the event, if that changed it.
type Context struct{ M, P, G uint64 }

// New returns a model for a trace of a version, without a list of problems if list is nil, or with one.
func New(v raw.Version, list *problem.List) *Model {
	md := &Model{
		Version: v, specs: v.Specs(), Judge: problem.Judge{List: list}, lenient: list != nil, checks: list != nil,
		gos: idtable.NewTable[Goroutine](), procs: idtable.NewTable[Proc](), threads: idtable.NewTable[Thread](),
		tasks: map[uint64]struct{}{}, moved: -1, patience: patience,
	}
	md.noThread = Thread{id: generation.None, pid: generation.None, gid: generation.None}
	return md
}

// Finding an order takes time when many threads have to wait for others. A trace must have patiencePerEvent attempts
// for each event, and patience more: real ones need less than one in a hundred of that. A trace that was made to
// take for ever is refused.
const (
	patience         = 100 << 20
	patiencePerEvent = 1000
)

// Begin takes the next generation. It returns false if the work ends with an Error.
func (md *Model) Begin(g *generation.Generation) bool {
	md.gen, md.number = g, g.Number
	if !md.started {
		md.initial = g.Number
	}
	md.Begun++
	md.forget()
	if g.Unsure {
		md.loseSight()
	}
	md.Judge.Unsure = md.sightLost > 0 && md.Begun <= md.sightLost+1
	md.Samples = g.Samples
	md.moved = -1
	md.frontier = md.frontier[:0]
	if cap(md.cursors) < len(g.Streams) {
		md.cursors = make([]Cursor, len(g.Streams))
	}
	md.cursors = md.cursors[:len(g.Streams)]
	for i, s := range g.Streams {
		c := &md.cursors[i]
		*c = Cursor{batches: s.Batches, Thread: md.thread(s.Thread), ahead: c.ahead[:0]}
		switch md.next(c) {
		case readFault:
			return false
		case readEvent:
			md.frontier.push(c)
			md.started = true
		}
	}
	return true
}

// loseSight notes that events are missing that could not be read. What does not fit is no finding then, until all states
// were told again.
func (md *Model) loseSight() {
	md.sightLost = md.Begun
	md.Judge.Unsure = true
}

// thread returns the thread with an ID, known or not.
func (md *Model) thread(id uint64) *Thread {
	if id == generation.None {
		return &md.noThread
	}
	t := md.threads.Find(id)
	if t == nil {
		t = &Thread{id: id, pid: generation.None, gid: generation.None}
		md.threads.Add(id, t)
	}
	return t
}

// A Step says what came next.
type Step uint8

const (
	StepEvent  Step = iota
	StepSample      // the first of Model.Samples, to be taken from there
	StepEnd         // the generation has ended
	stepFault       // a problem was reported that ends all
)

// Step finds the next event of the generation. The cursor has it until the next call.
func (md *Model) Step() (Step, *Cursor) {
	if md.moved == 0 {
		h := &md.frontier[0]
		c := h.cursor
		if c.taken < len(c.ahead) {
			c.Record = &c.ahead[c.taken]
			c.taken++
			h.time = c.Time
			md.frontier.updateFirst()
		} else if !md.refresh(0) {
			return stepFault, nil
		}
	} else if md.moved > 0 && !md.refresh(md.moved) {
		return stepFault, nil
	}
	if len(md.Samples) > 0 && (len(md.frontier) == 0 || md.Samples[0].Time < md.frontier[0].time) {
		md.moved = -1
		return StepSample, nil
	}
	if len(md.frontier) == 0 {
		md.moved = -1
		return StepEnd, nil
	}
	c := md.frontier[0].cursor
	md.moved = 0
	switch md.advance(c) {
	case done:
		return StepEvent, c
	case wait:
		return md.stepOther()
	}
	return stepFault, nil
}

// refresh reads the next event of the thread whose event was the last. It returns false if the work ends with an Error.
func (md *Model) refresh(i int) bool {
	h := &md.frontier[i]
	switch md.next(h.cursor) {
	case readEvent:
		h.time = h.cursor.Time
		md.frontier.update(i)
	case readEnd:
		md.frontier.remove(i)
	default:
		return false
	}
	return true
}

// stepOther finds the next event when it is not the earliest one.
func (md *Model) stepOther() (Step, *Cursor) {
	md.frontier.sort()
	if md.patience -= int64(len(md.frontier)) - patiencePerEvent; md.patience < 0 {
		md.Judge.Add(problem.Error, problem.Stuck, md.at(md.frontier[0].cursor),
			"finding an order of the events of %d threads takes too long; the rest of the generation is skipped", len(md.frontier))
		md.frontier, md.moved = md.frontier[:0], -1
		md.loseSight()
		md.patience = patience
		if !md.lenient {
			return stepFault, nil
		}
		return md.Step()
	}
	for i := 1; i < len(md.frontier); i++ {
		switch c := md.frontier[i].cursor; md.advance(c) {
		case done:
			md.moved = i
			return StepEvent, c
		case bad:
			return stepFault, nil
		}
	}
	// None can come next.
	c := md.frontier[0].cursor
	md.forced = true
	verdict := md.advance(c)
	md.forced = false
	if verdict != done {
		return stepFault, nil
	}
	md.moved = 0
	return StepEvent, c
}

// Memory returns about how many bytes the state of the scheduler takes.
func (md *Model) Memory() int64 {
	return int64(md.gos.Len()+len(md.freeGos))*memory.Goroutine + int64(md.procs.Len())*memory.Proc + int64(md.threads.Len())*memory.Stream +
		int64(len(md.tasks))*memory.Task
}
