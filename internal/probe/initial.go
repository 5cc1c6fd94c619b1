package probe

import (
	"cmp"
	"slices"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
)

// initialList is the goroutines that the stream starts with. There may be millions, so each takes 48 bytes until its event
// is yielded: equal stacks and origins are the same pointer, states and reasons are numbers.
type initialList struct {
	chunks  []*[initialChunk]initial
	n       int
	stacks  map[*event.StackFrame]*event.Stack
	origins map[event.Origin]*event.Origin
	states  numbered[event.State]
	reasons numbered[string]

	event event.Event // the fields that all events share
}

// initialChunk is the number of goroutines that are allocated at once, so that the list grows without copying.
const initialChunk = 1 << 10

// initial is a goroutine that was alive when the observation began.
type initial struct {
	id, parent uint64
	wait       int64 // nanoseconds
	stack      *event.Stack
	origin     *event.Origin
	tid        int32
	reason     uint16
	state      uint8
	created    bool // an event of its creation follows
}

// numbered assigns numbers to a few distinct texts. 0 is the empty text.
type numbered[T ~string] struct {
	texts   []T
	numbers map[T]uint16
}

func newNumbered[T ~string]() numbered[T] {
	return numbered[T]{texts: []T{""}, numbers: map[T]uint16{"": 0}}
}

func (n *numbered[T]) number(text T) uint16 {
	number, ok := n.numbers[text]
	if !ok {
		number = uint16(len(n.texts))
		n.texts, n.numbers[text] = append(n.texts, text), number
	}
	return number
}

func (n *numbered[T]) of(number uint16) T { return n.texts[number] }

func newInitialList() *initialList {
	return &initialList{stacks: map[*event.StackFrame]*event.Stack{}, origins: map[event.Origin]*event.Origin{},
		states: newNumbered[event.State](), reasons: newNumbered[string]()}
}

// add adds a goroutine of the snapshot.
func (l *initialList) add(g *event.Goroutine) {
	i := initial{id: g.ID, parent: g.Parent, wait: int64(g.Wait), tid: g.TID, origin: l.origin(g), stack: l.stack(g)}
	state, reason := g.State, g.Reason
	// A stream has fewer states than a snapshot.
	switch {
	case g.State == event.StateCopystack:
		state = event.StateRunning
	case g.State == event.StatePreempted:
		state, reason = event.StateWaiting, "preempted"
	case g.SystemStack:
		state, reason, i.wait = event.StateRunning, "", 0
	}
	i.state, i.reason = uint8(l.states.number(state)), l.reasons.number(reason)
	l.append(i)
}

func (l *initialList) append(g initial) {
	if l.n == len(l.chunks)*initialChunk {
		l.chunks = append(l.chunks, new([initialChunk]initial))
	}
	*l.at(l.n) = g
	l.n++
}

func (l *initialList) at(i int) *initial { return &l.chunks[i/initialChunk][i%initialChunk] }

func (l *initialList) origin(g *event.Goroutine) *event.Origin {
	key := event.Origin{CreatedBy: g.CreatedBy, Start: g.Start, System: g.System}
	origin, ok := l.origins[key]
	if !ok {
		origin = &key
		l.origins[key] = origin
	}
	return origin
}

func (l *initialList) stack(g *event.Goroutine) *event.Stack {
	if len(g.Stack) == 0 {
		return nil
	}
	stack, ok := l.stacks[&g.Stack[0]]
	if !ok {
		stack = &event.Stack{Frames: goproc.Visible(g.Stack), Truncated: g.Truncated}
		l.stacks[&g.Stack[0]] = stack
	}
	return stack
}

// sort sorts the goroutines by ID. It sorts an index, then moves each goroutine once.
func (l *initialList) sort() {
	from := make([]uint32, l.n) // index of the goroutine that belongs at a position
	for i := range from {
		from[i] = uint32(i)
	}
	slices.SortFunc(from, func(a, b uint32) int { return cmp.Compare(l.at(int(a)).id, l.at(int(b)).id) })
	for start := range from {
		first := *l.at(start)
		for to := start; ; {
			next := int(from[to])
			from[to] = uint32(to)
			if next == start {
				*l.at(to) = first
				break
			}
			*l.at(to) = *l.at(next)
			to = next
		}
	}
}

// yield calls yield with the event of each goroutine until it returns false. Yielded goroutines are removed.
func (l *initialList) yield(yield func(*event.Event) bool) bool {
	if l == nil {
		return true
	}
	var ev event.Event
	for i := range l.n {
		if i%initialChunk == 0 && i > 0 {
			l.chunks[i/initialChunk-1] = nil
		}
		g := l.at(i)
		if g.created {
			continue
		}
		ev = l.event
		ev.G, ev.Parent, ev.TID, ev.Value = g.id, g.parent, g.tid, g.wait
		ev.State, ev.Reason, ev.Origin, ev.Stack = l.states.of(uint16(g.state)), l.reasons.of(g.reason), g.origin, g.stack
		if !yield(&ev) {
			return false
		}
	}
	return true
}
