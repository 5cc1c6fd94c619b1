package trace

// taskBegin handles UserTaskBegin.
func (md *model) taskBegin(c *modelCursor) modelVerdict {
	id := c.args[0]
	if _, ok := md.tasks[id]; ok {
		md.bad(c, CodeTaskExists, "task %d begins, and has begun already", id)
		if !md.lenient {
			return modelBad
		}
	}
	md.tasks[id] = struct{}{}
	return md.need(c, modelNeedProc|modelNeedGo)
}

// taskEnd handles UserTaskEnd. That a task ends twice, or has begun before the trace, is no error.
func (md *model) taskEnd(c *modelCursor) modelVerdict {
	id := c.args[0]
	if _, ok := md.tasks[id]; !ok && md.checks {
		md.judge.addUnlessUnsure(Warning, CodeTaskNotBegun, md.at(c), "task %d ends, and its begin is not in the trace", id)
	}
	delete(md.tasks, id)
	return md.need(c, modelNeedProc|modelNeedGo)
}

// regionBegin handles UserRegionBegin.
func (md *model) regionBegin(c *modelCursor) modelVerdict {
	g, ok := md.active(c)
	if !ok {
		return modelBad
	}
	if g != nil {
		g.regions = append(g.regions, modelRegion{c.args[0], md.gen.strings.text(c.args[1])})
	}
	return modelDone
}

// regionEnd handles UserRegionEnd. That a region has begun before the trace is no error.
func (md *model) regionEnd(c *modelCursor) modelVerdict {
	g, ok := md.active(c)
	if !ok {
		return modelBad
	}
	if g == nil {
		return modelDone
	}
	r := modelRegion{c.args[0], md.gen.strings.text(c.args[1])}
	n := len(g.regions) - 1
	if n < 0 {
		if md.checks {
			md.judge.addUnlessUnsure(Warning, CodeRegionNotBegun, md.at(c), "region %q ends, and its begin is not in the trace", r.name)
		}
		return modelDone
	}
	if g.regions[n] != r {
		if !md.gen.strings.has(c.args[1]) {
			return modelDone // which is told for the string
		}
		in := g.regions[n]
		md.bad(c, CodeRegionMismatch, "region %q of task %d ends, but the innermost one is %q of task %d", r.name, r.task, in.name, in.task)
		if !md.lenient {
			return modelBad
		}
		// Believe the end, if such a region is under way at all.
		for n >= 0 && g.regions[n] != r {
			n--
		}
		if n < 0 {
			return modelDone
		}
	}
	clear(g.regions[n:])
	g.regions = g.regions[:n]
	return modelDone
}
