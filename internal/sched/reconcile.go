package sched

import "iter"

// Reconcile compares with the goroutines that a snapshot found: alive are their IDs, and at is a moment before it began to
// read, such that all events until then were applied. Goroutines that are uncertain, had no event since at and are not in
// the list are ended, at the time of now: their ends were lost. Certain ones are left alone, for their end will come by
// the stream; unless ends are not observed at all.
//
// It returns how many were ended, and how many of the list are not known: GoStatus events will make them known.
func (m *Machine) Reconcile(alive iter.Seq[uint64], at int64) (ended, missing int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range alive {
		if en := m.table.Find(id); en != nil {
			en.flags |= flagAlive
		} else if id != 0 {
			missing++
		}
	}
	for id, en := range m.table.All() {
		found := en.flags&flagAlive != 0
		en.flags &^= flagAlive
		doubtful := en.epoch != m.epoch || !m.ends
		if found || !doubtful || en.since >= at {
			continue
		}
		m.close(en, m.now, silent)
		m.end(id, en)
		ended++
	}
	m.life.reconciled += uint64(ended)
	return ended, missing
}
