package timeline

import "github.com/loupe-go/loupe/internal/gostate"

// thread is a kernel thread, on which goroutines run one after the other. It keeps its goroutine during system
// calls.
type thread struct {
	lane
	g *goroutine // its goroutine while its slice is open
}

// enterThread starts the slice of a goroutine on a thread.
func (tl *Timeline) enterThread(g *goroutine, tid int32, at int64) {
	t := tl.threads[tid]
	if t == nil {
		t = &thread{lane: tl.newLane(ThreadTrack, uint64(uint32(tid)), Description{})}
		tl.threads[tid] = t
	}
	if t.open { // the end of the other goroutine's slice was missed
		t.g.thread = false
		tl.close(&t.lane, at, Name{}, gostate.Misfit)
	}
	s := tl.slice(OnThread, "")
	s.Name = Label(g.track.Of, g.origin)
	s.number(KeyG, int64(g.track.Of))
	tl.begin(&t.lane, at, s)
	t.g, g.tid, g.thread = g, tid, true
}

// leaveThread ends the slice of a goroutine on its thread.
func (tl *Timeline) leaveThread(g *goroutine, at int64, f gostate.Fit) {
	g.thread = false
	t := tl.threads[g.tid]
	tl.close(&t.lane, at, Name{}, f)
	t.g = nil
}
