package order

import (
	"github.com/loupe-go/loupe/trace/internal/problem"
)

// taskBegin handles UserTaskBegin.
func (md *Model) taskBegin(c *Cursor) verdict {
	id := c.Args[0]
	if _, ok := md.tasks[id]; ok {
		md.bad(c, problem.TaskExists, "task %d begins twice", id)
		if !md.lenient {
			return bad
		}
	}
	md.tasks[id] = struct{}{}
	return md.need(c, needProc|needGo)
}

// taskEnd handles UserTaskEnd. That a task ends twice, or has begun before the trace, is no error.
func (md *Model) taskEnd(c *Cursor) verdict {
	id := c.Args[0]
	if _, ok := md.tasks[id]; !ok && md.checks {
		md.Judge.AddUnlessUnsure(problem.Warning, problem.TaskNotBegun, md.at(c), "task %d ends, but its begin is not in the trace", id)
	}
	delete(md.tasks, id)
	return md.need(c, needProc|needGo)
}

// regionBegin handles UserRegionBegin.
func (md *Model) regionBegin(c *Cursor) verdict {
	g, ok := md.active(c)
	if !ok {
		return bad
	}
	if g != nil {
		g.regions = append(g.regions, region{c.Args[0], md.gen.Strings.Text(c.Args[1])})
	}
	return done
}

// regionEnd handles UserRegionEnd. That a region has begun before the trace is no error.
func (md *Model) regionEnd(c *Cursor) verdict {
	g, ok := md.active(c)
	if !ok {
		return bad
	}
	if g == nil {
		return done
	}
	r := region{c.Args[0], md.gen.Strings.Text(c.Args[1])}
	n := len(g.regions) - 1
	if n < 0 {
		if md.checks {
			md.Judge.AddUnlessUnsure(problem.Warning, problem.RegionNotBegun, md.at(c), "region %q ends, but its begin is not in the trace", r.name)
		}
		return done
	}
	if g.regions[n] != r {
		if !md.gen.Strings.Has(c.Args[1]) {
			return done // which is told for the string
		}
		in := g.regions[n]
		md.bad(c, problem.RegionMismatch, "region %q of task %d ends, but the innermost one is %q of task %d", r.name, r.task, in.name, in.task)
		if !md.lenient {
			return bad
		}
		// Believe the end, if such a region is under way at all.
		for n >= 0 && g.regions[n] != r {
			n--
		}
		if n < 0 {
			return done
		}
	}
	clear(g.regions[n:])
	g.regions = g.regions[:n]
	return done
}
