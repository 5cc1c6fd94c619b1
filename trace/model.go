package trace

import (
	"github.com/loupe-go/loupe/trace/raw"
)

// A model puts the events of a trace into an order in which they can have happened, by following what goroutines, Ps and
// threads do. The rules are those of the toolchain's reader (internal/trace/order.go in the Go tree), so that the order is
// the same: the earliest event is next, unless something must come before it that the trace tells by its sequence numbers
// and states.
//
// With a list of problems the model goes on after each, and believes what is written then. Without, it ends at the first
// Error.
type model struct {
	version raw.Version
	specs   []raw.Spec // of the version
	judge   modelJudge
	lenient bool // judge has a list
	checks  bool // look for what is worth a Warning too

	gos     modelTable[modelGo]
	procs   modelTable[modelProc]
	threads modelTable[modelThread]
	tasks   map[uint64]struct{} // those of runtime/trace that are under way
	gc      modelGC
	freeGos []*modelGo
	ended   []*modelGo // in the generation, if checks is set

	gen     *modelGeneration
	number  uint64 // of gen
	initial uint64 // number of the first generation that has events
	started bool   // that has come
	begun   int    // generations so far
	// sightLost is the generation, counted from 1, in which parts were last missing; 0 if never.
	sightLost int

	frontier modelFrontier
	cursors  []modelCursor
	moved    int // index in frontier of the thread whose event was the last; -1 if none
	samples  []modelSample
	patience int64

	noThread modelThread // of batches of no thread
	// forced is set while an event must be taken that cannot come next.
	forced bool

	// What is to be known of the last event beside its arguments.
	ctx    modelContext
	first  bool // a status that is the first one of its goroutine or P
	stolen bool // a P was taken away implicitly
}

// A modelContext is where an event happened: before the event, if that changed it.
type modelContext struct{ m, p, g uint64 }

// newModel returns a model without a list of problems, or with one.
func newModel(v raw.Version, list *validList) *model {
	md := &model{
		version: v, specs: v.Specs(), judge: modelJudge{list: list}, lenient: list != nil, checks: list != nil,
		gos: newModelTable[modelGo](), procs: newModelTable[modelProc](), threads: newModelTable[modelThread](),
		tasks: map[uint64]struct{}{}, moved: -1, patience: modelPatience,
	}
	md.noThread = modelThread{id: modelNone, pid: modelNone, gid: modelNone}
	return md
}

// Finding an order takes time when many threads have to wait for others. A trace must have modelPatiencePerEvent attempts
// for each event, and modelPatience more: real ones need less than one in a hundred of that. A trace that was made to
// take for ever is refused.
const (
	modelPatience         = 100 << 20
	modelPatiencePerEvent = 1000
)

// begin takes the next generation. It returns false if the work ends with an Error.
func (md *model) begin(g *modelGeneration) bool {
	md.gen, md.number = g, g.number
	if !md.started {
		md.initial = g.number
	}
	md.begun++
	md.forget()
	if g.unsure {
		md.loseSight()
	}
	md.judge.unsure = md.sightLost > 0 && md.begun <= md.sightLost+1
	md.samples = g.samples
	md.moved = -1
	md.frontier = md.frontier[:0]
	if cap(md.cursors) < len(g.streams) {
		md.cursors = make([]modelCursor, len(g.streams))
	}
	md.cursors = md.cursors[:len(g.streams)]
	for i, s := range g.streams {
		c := &md.cursors[i]
		*c = modelCursor{batches: s.batches, thread: md.thread(s.thread), ahead: c.ahead[:0]}
		switch md.next(c) {
		case modelReadFault:
			return false
		case modelReadEvent:
			md.frontier.push(c)
			md.started = true
		}
	}
	return true
}

// loseSight notes that events are missing that could not be read. What does not fit is no finding then, until all states
// were told again.
func (md *model) loseSight() {
	md.sightLost = md.begun
	md.judge.unsure = true
}

// thread returns the thread with an ID, known or not.
func (md *model) thread(id uint64) *modelThread {
	if id == modelNone {
		return &md.noThread
	}
	t := md.threads.find(id)
	if t == nil {
		t = &modelThread{id: id, pid: modelNone, gid: modelNone}
		md.threads.add(id, t)
	}
	return t
}

// modelStep says what came next.
type modelStep uint8

const (
	modelStepEvent  modelStep = iota
	modelStepSample           // the first of md.samples, to be taken from there
	modelStepEnd              // the generation has ended
	modelStepFault            // a problem was reported that ends all
)

// step finds the next event of the generation. The cursor has it until the next call.
func (md *model) step() (modelStep, *modelCursor) {
	if md.moved == 0 {
		h := &md.frontier[0]
		c := h.cursor
		if c.taken < len(c.ahead) {
			c.modelRecord = &c.ahead[c.taken]
			c.taken++
			h.time = c.time
			md.frontier.updateFirst()
		} else if !md.refresh(0) {
			return modelStepFault, nil
		}
	} else if md.moved > 0 && !md.refresh(md.moved) {
		return modelStepFault, nil
	}
	if len(md.samples) > 0 && (len(md.frontier) == 0 || md.samples[0].time < md.frontier[0].time) {
		md.moved = -1
		return modelStepSample, nil
	}
	if len(md.frontier) == 0 {
		md.moved = -1
		return modelStepEnd, nil
	}
	c := md.frontier[0].cursor
	md.moved = 0
	switch md.advance(c) {
	case modelDone:
		return modelStepEvent, c
	case modelWait:
		return md.stepOther()
	}
	return modelStepFault, nil
}

// refresh reads the next event of the thread whose event was the last. It returns false if the work ends with an Error.
func (md *model) refresh(i int) bool {
	h := &md.frontier[i]
	switch md.next(h.cursor) {
	case modelReadEvent:
		h.time = h.cursor.time
		md.frontier.update(i)
	case modelReadEnd:
		md.frontier.remove(i)
	default:
		return false
	}
	return true
}

// stepOther finds the next event when it is not the earliest one.
func (md *model) stepOther() (modelStep, *modelCursor) {
	md.frontier.sort()
	if md.patience -= int64(len(md.frontier)) - modelPatiencePerEvent; md.patience < 0 {
		md.judge.add(Error, CodeStuck, md.at(md.frontier[0].cursor),
			"it takes too long to find an order of the events of %d threads; the rest of the generation is left out", len(md.frontier))
		md.frontier, md.moved = md.frontier[:0], -1
		md.loseSight()
		md.patience = modelPatience
		if !md.lenient {
			return modelStepFault, nil
		}
		return md.step()
	}
	for i := 1; i < len(md.frontier); i++ {
		switch c := md.frontier[i].cursor; md.advance(c) {
		case modelDone:
			md.moved = i
			return modelStepEvent, c
		case modelBad:
			return modelStepFault, nil
		}
	}
	// None can come next.
	c := md.frontier[0].cursor
	md.forced = true
	verdict := md.advance(c)
	md.forced = false
	if verdict != modelDone {
		return modelStepFault, nil
	}
	md.moved = 0
	return modelStepEvent, c
}
