package tracefile

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/stream"
	"github.com/loupe-go/loupe/sched"
)

// By says which goroutines are counted together.
type By string

// The ways.
const (
	ByStart   By = "start"   // those that start with the same function
	ByCreator By = "creator" // those that the same go statement has created
	ByNone    By = "none"    // each by itself
)

// Order is an order of groups, the largest first.
type Order string

// The orders. All but OrderCount are of a sum over the goroutines.
const (
	OrderRunning  Order = "running"
	OrderRunnable Order = "runnable"
	OrderBlocked  Order = "blocked"
	OrderSyscall  Order = "syscall"
	OrderLifetime Order = "lifetime"
	OrderCount    Order = "count"
)

// Orders lists the orders.
func Orders() []Order {
	return []Order{OrderRunning, OrderRunnable, OrderBlocked, OrderSyscall, OrderLifetime, OrderCount}
}

// A Group is goroutines that are counted together. The times of each are those in the trace: until it ended, or the trace.
type Group struct {
	By     By
	G      uint64      // of ByNone: the goroutine
	Frame  event.Frame // of ByStart the function, without a line; of ByCreator the go statement; of ByNone the function; zero when not known
	System bool        // belongs to the runtime
	Others int         // stands for that many groups that are not told apart

	Count   uint64 // goroutines
	AtStart uint64 // of them: were alive when the trace began
	Ended   uint64 // of them: ended in the trace

	Running, Runnable, Blocked, Syscall, Lifetime Spread
	Uncertain                                     sched.Nanos // time of which the state is not known, because events are missing
	Reasons                                       []Reason    // what the time in Blocked was spent on, the most first
}

// A Reason is what goroutines of a group waited for.
type Reason struct {
	Name   string
	Waits  uint64 // how often, waits under way at the end included
	Spread        // over the goroutines that waited for it
}

// add adds a goroutine. over says whether it has ended, and room how many more reasons may be told apart. It returns how
// many are new.
func (gr *Group) add(g *sched.Goroutine, waits []reasonTime, over bool, now int64, room int) (fresh int) {
	gr.Count++
	if g.Created == 0 && !g.Found {
		gr.AtStart++
	}
	if over {
		gr.Ended++
	}
	gr.Running.Add(g.Running)
	gr.Runnable.Add(g.Runnable)
	gr.Blocked.Add(g.Blocked)
	gr.Syscall.Add(g.Syscall)
	gr.Lifetime.Add(time.Duration(now - g.Seen))
	gr.Uncertain = gr.Uncertain.Add(sched.NanosOf(g.InDoubt))
	for i := range waits {
		w := &waits[i]
		r := gr.reason(w.reason)
		if r == nil {
			name := w.reason
			if fresh >= room {
				name = otherReasons
			}
			if r = gr.reason(name); r == nil {
				gr.Reasons = append(gr.Reasons, Reason{Name: name})
				r = &gr.Reasons[len(gr.Reasons)-1]
				fresh++
			}
		}
		r.Waits += w.count
		r.Add(time.Duration(w.time))
	}
	return fresh
}

func (gr *Group) reason(name string) *Reason {
	for i := range gr.Reasons {
		if gr.Reasons[i].Name == name {
			return &gr.Reasons[i]
		}
	}
	return nil
}

// key returns what an order compares.
func (gr *Group) key(by Order) sched.Nanos {
	switch by {
	case OrderRunnable:
		return gr.Runnable.Total()
	case OrderBlocked:
		return gr.Blocked.Total()
	case OrderSyscall:
		return gr.Syscall.Total()
	case OrderLifetime:
		return gr.Lifetime.Total()
	case OrderCount:
		return sched.NanosOf(time.Duration(gr.Count))
	}
	return gr.Running.Total()
}

// compare puts the group with more first; of two with the same the one that is named first.
func (gr *Group) compare(o *Group, by Order) int {
	return cmp.Or(o.key(by).Cmp(gr.key(by)), cmp.Compare(gr.G, o.G), cmp.Compare(gr.Frame.Func, o.Frame.Func),
		cmp.Compare(gr.Frame.File, o.Frame.File), cmp.Compare(gr.Frame.Line, o.Frame.Line))
}

// Bounds of memory. A Spread over many goroutines takes 8 KiB; with these bounds all of them take less than 300 MB,
// whatever the trace.
const (
	maxGroups       = 4 << 10
	maxGroupReasons = 16 << 10 // of all groups together
	maxOrigins      = 64 << 10 // whose group is remembered
)

// groups are the goroutines of a trace, by group.
type groups struct {
	by    By
	order Order
	top   int  // of ByNone: how many are told apart; 0 means all
	hide  bool // groups of the runtime are not wanted

	byFrame  map[event.Frame]*Group
	byOrigin map[*event.Origin]*Group
	reasons  int
	hidden   uint64 // goroutines of the runtime that are not wanted

	largest groupHeap // of ByNone
	rest    *Group    // what is not told apart; nil when there is none
}

func newGroups(opt *StatOptions) groups {
	return groups{by: opt.By, order: opt.Order, top: opt.Top, hide: !opt.System, byFrame: map[event.Frame]*Group{},
		byOrigin: map[*event.Origin]*Group{}, largest: groupHeap{order: opt.Order}}
}

// add adds a goroutine whose times are known until now.
func (s *groups) add(g *sched.Goroutine, waits []reasonTime, over bool, now int64) {
	if g.Origin == nil {
		g.Origin = originByStack(g.Stack)
	}
	if s.hide && g.Origin != nil && g.Origin.System {
		s.hidden++
		return
	}
	if s.by == ByNone {
		s.addSingle(g, waits, over, now)
		return
	}
	gr := s.groupOf(g.Origin)
	s.reasons += gr.add(g, waits, over, now, maxGroupReasons-s.reasons)
}

// groupOf returns the group of goroutines with an origin.
func (s *groups) groupOf(o *event.Origin) *Group {
	if gr := s.byOrigin[o]; gr != nil {
		return gr
	}
	var key event.Frame
	system := false
	if o != nil {
		system = o.System
		if key = o.CreatedBy; s.by == ByStart {
			key = event.Frame{Func: o.Start.Func, File: o.Start.File}
		}
	}
	gr := s.byFrame[key]
	switch {
	case gr != nil:
	case len(s.byFrame) >= maxGroups:
		gr = s.other()
	default:
		gr = &Group{By: s.by, Frame: key, System: system}
		s.byFrame[key] = gr
	}
	if len(s.byOrigin) >= maxOrigins {
		clear(s.byOrigin)
	}
	s.byOrigin[o] = gr
	return gr
}

// originByStack returns what a stack tells of where its goroutine comes from; nil when it tells nothing.
func originByStack(s *event.Stack) *event.Origin {
	if s == nil || s.Truncated || len(s.Frames) == 0 {
		return nil
	}
	root := s.Frames[len(s.Frames)-1]
	return &event.Origin{Start: event.Frame{Func: root.Func, File: root.File}, System: stream.IsSystem(s)}
}

func (s *groups) other() *Group {
	if s.rest == nil {
		s.rest = &Group{By: s.by}
	}
	return s.rest
}

// addSingle adds a goroutine that is told by itself, if it is among the largest.
func (s *groups) addSingle(g *sched.Goroutine, waits []reasonTime, over bool, now int64) {
	gr := &Group{By: ByNone, G: g.ID}
	if g.Origin != nil {
		gr.Frame, gr.System = g.Origin.Start, g.Origin.System
	}
	gr.add(g, waits, over, now, maxReasonsOfG+1)
	heap.Push(&s.largest, gr)
	if s.top > 0 && len(s.largest.list) > s.top {
		small := heap.Pop(&s.largest).(*Group)
		rest := s.other()
		rest.merge(small)
		rest.Others++
	}
}

// merge adds the goroutines of another group.
func (gr *Group) merge(o *Group) {
	gr.Count += o.Count
	gr.AtStart += o.AtStart
	gr.Ended += o.Ended
	gr.Running.merge(&o.Running)
	gr.Runnable.merge(&o.Runnable)
	gr.Blocked.merge(&o.Blocked)
	gr.Syscall.merge(&o.Syscall)
	gr.Lifetime.merge(&o.Lifetime)
	gr.Uncertain = gr.Uncertain.Add(o.Uncertain)
	for i := range o.Reasons {
		or := &o.Reasons[i]
		r := gr.reason(or.Name)
		if r == nil {
			name := or.Name
			if len(gr.Reasons) >= maxReasonsOfG {
				name = otherReasons
			}
			if r = gr.reason(name); r == nil {
				gr.Reasons = append(gr.Reasons, Reason{Name: name})
				r = &gr.Reasons[len(gr.Reasons)-1]
			}
		}
		r.Waits += or.Waits
		r.merge(&or.Spread)
	}
}

// list returns the groups in their order, at most top, and what is left put together; nil when nothing is.
func (s *groups) list(top int) ([]*Group, *Group) {
	list := s.largest.list
	for _, gr := range s.byFrame {
		list = append(list, gr)
	}
	slices.SortFunc(list, func(a, b *Group) int { return a.compare(b, s.order) })
	if top > 0 && len(list) > top {
		for _, gr := range list[top:] {
			s.other().merge(gr)
			s.rest.Others++
		}
		list = list[:top]
	}
	for _, gr := range list {
		gr.sortReasons()
	}
	if s.rest != nil {
		s.rest.sortReasons()
	}
	return list, s.rest
}

func (gr *Group) sortReasons() {
	slices.SortStableFunc(gr.Reasons, func(a, b Reason) int { return b.Total().Cmp(a.Total()) })
}

// groupHeap is a heap with the smallest group first.
type groupHeap struct {
	order Order
	list  []*Group
}

func (h *groupHeap) Len() int           { return len(h.list) }
func (h *groupHeap) Less(i, j int) bool { return h.list[i].compare(h.list[j], h.order) > 0 }
func (h *groupHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *groupHeap) Push(x any)         { h.list = append(h.list, x.(*Group)) }
func (h *groupHeap) Pop() any {
	last := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return last
}
