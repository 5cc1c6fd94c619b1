package timeline

// counter is a number that is drawn. A change is delayed until time advances, so that of several changes at one time only the
// last is drawn, and until CounterInterval has passed since the previous value.
type counter struct {
	value   int64
	changed int64 // time of the last change
	drawn   int64 // time of the last drawn value
	pending bool  // the value is not drawn yet
	begun   bool  // a value has been drawn
}

// count adds to a counter.
func (tl *Timeline) count(c Counter, d int64) { tl.set(c, tl.counters[c].value+d) }

// set sets a counter at the time of the current event.
func (tl *Timeline) set(c Counter, v int64) {
	n := &tl.counters[c]
	if !tl.counts[c] || n.value == v && (n.begun || n.pending) {
		return
	}
	n.value, n.changed, n.pending = v, max(tl.at, n.drawn), true
	tl.pending = true
}

// drawCounters draws the pending values of counters at a time, unless the last values were drawn just before.
func (tl *Timeline) drawCounters(until int64) {
	tl.pending = false
	for c := range tl.counters {
		n := &tl.counters[c]
		if !n.pending {
			continue
		}
		if until <= n.changed || n.begun && until-n.drawn < tl.interval {
			tl.pending = true
			continue
		}
		tl.draw(Counter(c), n)
	}
}

func (tl *Timeline) draw(c Counter, n *counter) {
	tl.sink.Counter(n.changed, c, n.value)
	n.drawn, n.begun, n.pending = n.changed, true, false
	tl.stats.Counters++
}

// finishCounters draws all pending values.
func (tl *Timeline) finishCounters() {
	for c := range tl.counters {
		if n := &tl.counters[c]; n.pending {
			tl.draw(Counter(c), n)
		}
	}
}
