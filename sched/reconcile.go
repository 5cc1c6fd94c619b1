package sched

import "iter"

// Reconcile ends the goroutines whose GoDestroy was lost. alive yields the IDs of the live goroutines, as read by a snapshot.
// at is a time before the snapshot began, in nanoseconds since the Unix epoch. All events up to at must have been applied.
//
// A goroutine ends at the current time of the Machine if it is uncertain, has not changed its state since at, and is not in
// alive. Other goroutines are not ended, because the stream will contain their GoDestroy. If GoDestroy is not observed,
// goroutines that are not uncertain are ended too.
//
// Reconcile returns the number of goroutines that it ended, and the number of IDs in alive that the Machine does not know.
// It does not add goroutines.
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
