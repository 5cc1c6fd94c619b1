package order

import (
	"slices"

	"github.com/loupe-go/loupe/trace/internal/generation"
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// gcActive handles GCActive: a collection is under way when the generation begins.
func (md *Model) gcActive(c *Cursor) verdict {
	if md.number == md.initial {
		if md.gc.state != gcUnknown {
			md.bad(c, problem.GCPairing, "%s is not the first event of a garbage collection", md.name(c))
			if !md.lenient {
				return bad
			}
		}
		md.gc = collector{sequence{n: c.Args[0]}, gcOn}
		return done
	}
	return md.gcEvent(c, gcOn, gcOn)
}

// gcBegin handles GCBegin.
func (md *Model) gcBegin(c *Cursor) verdict {
	if md.gc.state == gcUnknown {
		md.gc = collector{sequence{n: c.Args[0]}, gcOn}
		return done
	}
	return md.gcEvent(c, gcOff, gcOn)
}

// gcEnd handles GCEnd.
func (md *Model) gcEnd(c *Cursor) verdict { return md.gcEvent(c, gcOn, gcOff) }

// gcEvent handles an event of the collector, which must be in a state and goes to another one. All of them have one
// sequence.
func (md *Model) gcEvent(c *Cursor, want, next gcState) verdict {
	gc := &md.gc
	seq := c.Args[0]
	if !gc.seq.precedes(0, seq) {
		if !md.forced {
			return wait
		}
		if gc.state != gcUnknown || next == gcOn {
			md.bad(c, problem.GCSequence, "%s with sequence number %d, want %d", md.name(c), seq, gc.seq.n+1)
			if !md.lenient {
				return bad
			}
			gc.seq.force(0, seq)
			gc.state = next
			return md.need(c, needProc|needGo)
		}
	}
	if gc.state != want {
		md.bad(c, problem.GCPairing, "%s while %s", md.name(c), gcText(gc.state))
		if !md.lenient {
			return bad
		}
	}
	*gc = collector{sequence{n: seq}, next}
	return md.need(c, needProc|needGo)
}

func gcText(s gcState) string {
	switch s {
	case gcOn:
		return "a garbage collection is running"
	case gcOff:
		return "no garbage collection is running"
	}
	return "it is unknown whether a garbage collection is running"
}

// active returns the goroutine of an event that needs one in any status, with a P.
func (md *Model) active(c *Cursor) (g *Goroutine, ok bool) {
	if !md.has(c, needProc|needGo) {
		return nil, false
	}
	g = md.current(c.Thread)
	if g != nil && g.status != goEnded || c.Thread.gid == generation.None {
		return g, true
	}
	md.bad(c, problem.UnknownGo, "%s on a thread that runs unknown goroutine %d", md.name(c), c.Thread.gid)
	return nil, md.lenient
}

// stwBegin handles STWBegin.
func (md *Model) stwBegin(c *Cursor) verdict {
	g, ok := md.active(c)
	if !ok {
		return bad
	}
	if g == nil {
		return done
	}
	stop := stop{c.Args[0]}
	if slices.Contains(g.stops, stop) {
		md.bad(c, problem.STWPairing, "goroutine %d has already stopped the world for the same reason", g.ID)
		return md.afterProblem()
	}
	if md.checks && len(g.stops) > 0 {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.STWPairing, md.at(c), "goroutine %d has already stopped the world", g.ID)
	}
	g.stops = append(g.stops, stop)
	return done
}

// stwEnd handles STWEnd.
func (md *Model) stwEnd(c *Cursor) verdict {
	g, ok := md.active(c)
	if !ok {
		return bad
	}
	if g == nil {
		return done
	}
	if len(g.stops) == 0 {
		return md.bad(c, problem.STWPairing, "goroutine %d starts the world without having stopped it", g.ID)
	}
	n := len(g.stops) - 1
	g.stops[0] = g.stops[n]
	g.stops = g.stops[:n]
	return done
}

// sweepActive handles GCSweepActive: a P sweeps when the generation begins.
func (md *Model) sweepActive(c *Cursor) verdict {
	p := md.procs.Find(c.Args[0])
	switch {
	case p == nil:
		return md.bad(c, problem.UnknownProc, "%s of unknown P %d", md.name(c), c.Args[0])
	case md.number == md.initial && p.sweeps:
		return md.bad(c, problem.SweepPairing, "%s of P %d, which is already sweeping", md.name(c), p.id)
	case md.number != md.initial && !p.sweeps:
		md.bad(c, problem.SweepPairing, "%s of P %d, which is not sweeping according to earlier events", md.name(c), p.id)
		if !md.lenient {
			return bad
		}
	}
	p.sweeps = true
	return done
}

// sweepBegin handles GCSweepBegin.
func (md *Model) sweepBegin(c *Cursor) verdict { return md.sweep(c, true) }

// sweepEnd handles GCSweepEnd.
func (md *Model) sweepEnd(c *Cursor) verdict { return md.sweep(c, false) }

// sweep begins or ends the sweeping of a thread's P.
func (md *Model) sweep(c *Cursor, begin bool) verdict {
	if c.Thread.pid == generation.None {
		return md.need(c, needProc)
	}
	p := c.Thread.p
	if p.sweeps == begin {
		text := "which is already sweeping"
		if !begin {
			text = "which is not sweeping"
		}
		return md.bad(c, problem.SweepPairing, "%s of P %d, %s", md.name(c), p.id, text)
	}
	p.sweeps = begin
	return done
}

// assistActive handles GCMarkAssistActive: a goroutine helps the collector when the generation begins.
func (md *Model) assistActive(c *Cursor) verdict {
	g := md.goroutine(c.Args[0])
	switch {
	case g == nil:
		return md.bad(c, problem.UnknownGo, "%s of unknown goroutine %d", md.name(c), c.Args[0])
	case md.number == md.initial && g.assist:
		return md.bad(c, problem.AssistPairing, "%s of goroutine %d, which is already assisting", md.name(c), g.ID)
	case md.number != md.initial && !g.assist:
		md.bad(c, problem.AssistPairing, "%s of goroutine %d, which is not assisting according to earlier events", md.name(c), g.ID)
		if !md.lenient {
			return bad
		}
	}
	g.assist = true
	return done
}

// assistBegin handles GCMarkAssistBegin.
func (md *Model) assistBegin(c *Cursor) verdict { return md.assists(c, true) }

// assistEnd handles GCMarkAssistEnd.
func (md *Model) assistEnd(c *Cursor) verdict { return md.assists(c, false) }

// assists begins or ends a mark assist of the running goroutine.
func (md *Model) assists(c *Cursor, begin bool) verdict {
	g, ok := md.active(c)
	if !ok {
		return bad
	}
	if g == nil {
		return done
	}
	if g.assist == begin {
		text := "which is already assisting"
		if !begin {
			text = "which is not assisting"
		}
		return md.bad(c, problem.AssistPairing, "%s of goroutine %d, %s", md.name(c), g.ID, text)
	}
	g.assist = begin
	return done
}
