package timeline

// counter is a number that is drawn. A change waits for the next moment, so that of several changes at one time only the
// last is drawn, and for the interval since the value before.
type counter struct {
	value   int64
	changed int64 // when it took the value
	drawn   int64 // the time of the value that was drawn last
	pending bool  // the value is not drawn yet
	begun   bool  // some value is
}

// count adds to a counter.
func (tl *Timeline) count(c Counter, d int64) { tl.set(c, tl.counters[c].value+d) }

// set gives a counter its value at the time of the event that is taken.
func (tl *Timeline) set(c Counter, v int64) {
	n := &tl.counters[c]
	if !tl.counts[c] || n.value == v && (n.begun || n.pending) {
		return
	}
	n.value, n.changed, n.pending = v, max(tl.at, n.drawn), true
	tl.pending = true
}

// drawCounters draws the counters whose values held until a time, unless the last ones were drawn just before.
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

// finishCounters draws what is left.
func (tl *Timeline) finishCounters() {
	for c := range tl.counters {
		if n := &tl.counters[c]; n.pending {
			tl.draw(Counter(c), n)
		}
	}
}
