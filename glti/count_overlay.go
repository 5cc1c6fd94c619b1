//go:build loupe_glti

package glti

import (
	"fmt"
	"slices"
)

// rt_count selects the events that are counted, and rt_counted returns how many there have been while they were.
func rt_count(mask uint64)
func rt_counted(event uint8) uint64

// uncounted are the events of the runtime for which there are no counters.
var uncounted = []Event{EvGoWaiting, EvGoInSyscall, EvString, EvGoStartLocal, EvGoStartLabel, EvGoUnblockLocal, EvGoSysExitLocal,
	EvUserTaskCreate, EvUserTaskEnd, EvUserRegion, EvUserLog}

// countedEvents is the mask of the events that are counted, guarded by eventCounting.
var countedEvents uint64

func (*overlay) countEvent(ev Event, on bool) error {
	if _, ok := overlayEvents[ev]; !ok || slices.Contains(uncounted, ev) {
		return fmt.Errorf("glti: CountEvent: %s is %w: it has no counter", ev, ErrUnavailable)
	}
	if on {
		countedEvents |= 1 << ev
	} else {
		countedEvents &^= 1 << ev
	}
	rt_count(countedEvents)
	return nil
}

func (*overlay) counted(ev Event) uint64 { return rt_counted(uint8(ev)) }
