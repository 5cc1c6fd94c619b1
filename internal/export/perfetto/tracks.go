package perfetto

import (
	"math"
	"strconv"

	"github.com/loupe-go/loupe/internal/export/timeline"
	"github.com/loupe-go/loupe/internal/term"
)

// groupTrack is a track without slices, the parent of other tracks.
type groupTrack uint8

const (
	groupGoroutines groupTrack = iota
	groupThreads               // if the process is unknown; otherwise threads are below the process
	groupTasks
	numGroups
)

var groupNames = [numGroups]string{groupGoroutines: "goroutines", groupThreads: "threads", groupTasks: "tasks"}

// UUIDs of tracks: the process, the groups, the counters, then those of package timeline.
const (
	uuidProcess  = 1
	uuidGroups   = uuidProcess + 1
	uuidCounters = uuidGroups + uint64(numGroups)
	uuidTracks   = uuidCounters + uint64(timeline.NumCounters) - 1
)

func uuidOf(t timeline.Track) uint64 {
	if t.Kind == timeline.ProcessTrack {
		return uuidProcess
	}
	return uuidTracks + t.ID
}

var groupOrders = [numGroups]uint64{groupGoroutines: orderExplicit, groupThreads: orderExplicit, groupTasks: orderChronological}

// group returns the UUID of a group, and announces the group at its first use.
func (w *Writer) group(g groupTrack) uint64 {
	uuid := uuidGroups + uint64(g)
	if !w.groups[g] {
		w.groups[g] = true
		b, m := w.openTrack(uuid, uuidProcess)
		b = appendText(b, trackName, groupNames[g])
		b = appendUint(b, trackChildOrdering, groupOrders[g])
		w.closeTrack(b, m)
	}
	return uuid
}

// openTrack starts a packet with a track's descriptor. closeTrack must follow. Descriptors have a separate sequence: that of a
// thread would apply to all events of its sequence.
func (w *Writer) openTrack(uuid, parent uint64) ([]byte, [2]int) {
	b, packet := openMessage(w.out.Buf, tracePacket)
	b = appendUint(b, packetSequenceID, trackSequence)
	b, track := openMessage(b, packetTrack)
	b = appendUint(b, trackUUID, uuid)
	if parent != 0 {
		b = appendUint(b, trackParent, parent)
	}
	return b, [2]int{track, packet}
}

func (w *Writer) closeTrack(b []byte, m [2]int) {
	w.out.Buf = closeMessage(closeMessage(b, m[0]), m[1])
}

// processTrack announces the process.
func (w *Writer) processTrack() {
	name := term.Escape(w.opt.ProcessName())
	b, m := w.openTrack(uuidProcess, 0)
	if w.pid > 0 {
		var p int
		b, p = openMessage(b, trackProcess)
		b = appendUint(b, processPID, uint64(w.pid))
		b = appendText(b, processName, name)
		b = closeMessage(b, p)
	} else {
		b = appendText(b, trackName, name)
	}
	w.closeTrack(b, m)
}

// goroutineTrack announces a goroutine.
func (w *Writer) goroutineTrack(t timeline.Track, d *timeline.Description) {
	parent := w.group(groupGoroutines)
	b, m := w.openTrack(uuidOf(t), parent)
	b = appendUint(b, trackRank, min(t.Of, math.MaxInt32))
	b = appendName(b, trackName, timeline.Label(t.Of, d.Origin))
	w.closeTrack(appendUint(b, trackMerge, mergeNone), m)
}

// threadTrack announces a kernel thread.
func (w *Writer) threadTrack(t timeline.Track) {
	if w.pid > 0 {
		b, m := w.openTrack(uuidOf(t), 0)
		b, p := openMessage(b, trackThread)
		b = appendUint(b, threadPID, uint64(w.pid))
		b = appendUint(b, threadTID, t.Of)
		w.closeTrack(closeMessage(b, p), m)
		return
	}
	parent := w.group(groupThreads)
	b, m := w.openTrack(uuidOf(t), parent)
	b = appendUint(b, trackRank, min(t.Of, math.MaxInt32))
	b = appendText(b, trackName, "thread "+strconv.FormatUint(t.Of, 10))
	w.closeTrack(appendUint(b, trackMerge, mergeNone), m)
}

// counterTrack announces a counter at its first value.
func (w *Writer) counterTrack(c timeline.Counter) uint64 {
	uuid := uuidCounters + uint64(c)
	if !w.counts[c] {
		w.counts[c] = true
		b, m := w.openTrack(uuid, uuidProcess)
		b = appendText(b, trackName, c.String())
		b, d := openMessage(b, trackCounter)
		unit := uint64(counterUnitCount)
		if c.Bytes() {
			unit = counterUnitSizeByte
		}
		b = closeMessage(appendUint(b, counterUnit, unit), d)
		w.closeTrack(b, m)
	}
	return uuid
}

// plainTrack announces a track that has only a name.
func (w *Writer) plainTrack(t timeline.Track, parent uint64, name string) {
	b, m := w.openTrack(uuidOf(t), parent)
	w.closeTrack(appendText(b, trackName, term.Escape(name)), m)
}
