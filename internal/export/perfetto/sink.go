package perfetto

import (
	"math"

	"github.com/loupe-go/loupe/internal/export/timeline"
)

// sink implements timeline.Sink.
type sink Writer

// The numbers of the packet sequences.
const (
	sequence      = 1 // of events
	trackSequence = 2 // of tracks' descriptors
)

// Start implements timeline.Sink.
func (s *sink) Start(base int64, pid int32) {
	w := (*Writer)(s)
	w.base, w.pid = base, pid
	w.statePacket(true)
	w.processTrack()
}

// clearState clears the interned data, and writes that it did.
func (w *Writer) clearState() {
	w.intern.init()
	w.statePacket(false)
}

// statePacket resets the state of the sequence and sets the new state: the clock of packets and the
// numbers of categories and keys. The first one also defines the clock.
func (w *Writer) statePacket(first bool) {
	b, packet := openMessage(w.out.Buf, tracePacket)
	b = appendUint(b, packetSequenceID, sequence)
	b = appendUint(b, packetSequenceFlags, sequenceStateCleared)
	b, defaults := openMessage(b, packetDefaults)
	b = closeMessage(appendUint(b, defaultsClockID, clockTraceFile), defaults)
	if first {
		b = appendUint(b, packetFirst, 1)
		var snapshot int
		b, snapshot = openMessage(b, packetClockSnapshot)
		b = appendUint(b, snapshotPrimaryClock, clockTraceFile)
		b = appendClock(b, clockTraceFile, 0)
		b = closeMessage(appendClock(b, clockRealtime, uint64(w.base)), snapshot)
	}
	w.out.Buf = closeMessage(w.appendInterned(b), packet)
}

func appendClock(b []byte, id, at uint64) []byte {
	b, m := openMessage(b, snapshotClocks)
	b = appendUint(b, clockID, id)
	return closeMessage(appendUint(b, clockTimestamp, at), m)
}

// appendInterned appends the data that was interned since the previous packet.
func (w *Writer) appendInterned(b []byte) []byte {
	if len(w.intern.fresh) > 0 {
		b = appendText(b, packetInternedData, w.intern.fresh)
		w.intern.fresh = w.intern.fresh[:0]
	}
	return b
}

// Open implements timeline.Sink.
func (s *sink) Open(t timeline.Track, d *timeline.Description) {
	w := (*Writer)(s)
	switch t.Kind {
	case timeline.GoroutineTrack:
		w.goroutineTrack(t, d)
	case timeline.ThreadTrack:
		w.threadTrack(t)
	case timeline.RegionTrack:
		w.plainTrack(t, uuidTracks+d.Parent, "regions")
	case timeline.TaskTrack:
		name := d.Type
		if name == "" {
			name = "task"
		}
		w.plainTrack(t, w.group(groupTasks), name)
	case timeline.GCTrack:
		w.plainTrack(t, uuidProcess, "GC")
	case timeline.STWTrack:
		w.plainTrack(t, uuidProcess, "stop the world")
	case timeline.LostTrack:
		w.plainTrack(t, uuidProcess, "lost events")
	}
}

// openEvent starts a packet with an event on a track. closeEvent must follow.
func (w *Writer) openEvent(at int64, uuid, what uint64) ([]byte, [2]int) {
	b, packet := openMessage(w.out.Buf, tracePacket)
	b = appendUint(b, packetTimestamp, uint64(at-w.base))
	b = appendUint(b, packetSequenceID, sequence)
	b = appendUint(b, packetSequenceFlags, sequenceNeedsState)
	b, ev := openMessage(b, packetTrackEvent)
	b = appendUint(b, eventType, what)
	return appendUint(b, eventTrack, uuid), [2]int{ev, packet}
}

func (w *Writer) closeEvent(b []byte, m [2]int) {
	b = closeMessage(b, m[0])
	w.out.Buf = closeMessage(w.appendInterned(b), m[1])
}

// Begin implements timeline.Sink.
func (s *sink) Begin(at int64, t timeline.Track, slice *timeline.Slice) {
	(*Writer)(s).describe(at, uuidOf(t), typeSliceBegin, slice)
}

// Instant implements timeline.Sink.
func (s *sink) Instant(at int64, t timeline.Track, slice *timeline.Slice) {
	(*Writer)(s).describe(at, uuidOf(t), typeInstant, slice)
}

// describe writes an event with its description.
func (w *Writer) describe(at int64, uuid, what uint64, s *timeline.Slice) {
	b, m := w.openEvent(at, uuid, what)
	b = appendUint(b, eventCategoryIID, uint64(s.Category)+1)
	if s.Name.Once {
		b = appendName(b, eventName, s.Name)
	} else {
		b = appendUint(b, eventNameIID, w.intern.name(&s.Name))
	}
	switch s.Role {
	case timeline.FlowBegins:
		b = appendFixed64(b, eventFlow, s.Flow)
	case timeline.FlowEnds:
		b = appendFixed64(b, eventFlowTerminating, s.Flow)
	}
	if s.Stack != nil && w.opt.Frames >= 0 {
		frames := w.opt.Frames
		if frames == 0 {
			frames = math.MaxInt
		}
		if id := w.intern.stack(s.Stack, frames); id != 0 {
			b = appendUint(b, eventCallstackIID, id)
		}
	}
	args := s.Args()
	for i := range args {
		b = w.appendArg(b, &args[i])
	}
	w.closeEvent(b, m)
}

// appendName appends a field with a name.
func appendName(b []byte, field uint64, n timeline.Name) []byte {
	b, m := openMessage(b, field)
	return closeMessage(n.AppendTo(b), m)
}

func (w *Writer) appendArg(b []byte, a *timeline.Arg) []byte {
	b, m := openMessage(b, eventAnnotation)
	b = appendUint(b, annotationNameIID, uint64(a.Key)+1)
	switch {
	case a.IsText:
		b = appendUint(b, annotationStringValue, w.intern.text(poolValues, a.Text))
	case a.Key == timeline.KeyObject:
		b = appendUint(b, annotationPointer, uint64(a.Number))
	default:
		b = appendUint(b, annotationInt, uint64(a.Number))
	}
	return closeMessage(b, m)
}

// End implements timeline.Sink.
func (s *sink) End(at int64, t timeline.Track, _ timeline.Name, how timeline.Ending) {
	w := (*Writer)(s)
	b, m := w.openEvent(at, uuidOf(t), typeSliceEnd)
	if key, text, ok := how.Note(); ok {
		b = w.appendArg(b, &timeline.Arg{Key: key, Text: text, IsText: true})
	}
	w.closeEvent(b, m)
}

// Counter implements timeline.Sink.
func (s *sink) Counter(at int64, c timeline.Counter, value int64) {
	w := (*Writer)(s)
	uuid := w.counterTrack(c)
	b, m := w.openEvent(at, uuid, typeCounter)
	w.closeEvent(appendUint(b, eventCounterValue, uint64(value)), m)
}
