package chrome

import (
	"fmt"
	"strconv"
	"time"

	"github.com/loupe-go/loupe/internal/export/timeline"
)

// sink implements timeline.Sink.
type sink Writer

const (
	unknownPID    = 1       // some viewers take 0 for the kernel
	threadsOffset = 1 << 22 // PID_MAX_LIMIT of Linux
)

// begin starts the document, with the time of the first event if there is one.
func (w *Writer) begin(base *int64) {
	if w.begun {
		return
	}
	w.begun = true
	b := append(w.out.Buf, `{"displayTimeUnit":"ns","otherData":{"producer":"loupe"`...)
	if base != nil {
		b = append(b, `,"start":"`...)
		b = time.Unix(0, *base).UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, `","startNanoseconds":"`...)
		b = append(strconv.AppendInt(b, *base, 10), '"')
	}
	w.out.Buf = append(b, "},\"traceEvents\":[\n"...)
}

// Start implements timeline.Sink.
func (s *sink) Start(base int64, pid int32) {
	w := (*Writer)(s)
	w.base, w.pid = base, int64(pid)
	if pid <= 0 {
		w.pid = unknownPID
	}
	w.threadsPID = w.pid + threadsOffset
	w.pidText = fmt.Sprintf(`","pid":%d,"tid":`, w.pid)
	w.begin(&base)
	w.metadata("process_name", w.pid, 0, timeline.Name{Text: w.opt.ProcessName()})
	w.metadata("thread_name", w.pid, 0, timeline.Name{Lead: "program"})
}

// open starts an event. It does not close the event's object.
func (w *Writer) open(phase byte, pid int64, tid uint64) []byte {
	b := append(w.out.Buf, ",\n{\"ph\":\""...)
	if !w.some {
		w.some = true
		b = append(w.out.Buf, `{"ph":"`...)
	}
	b = append(b, phase)
	if pid == w.pid {
		b = append(b, w.pidText...)
	} else {
		b = strconv.AppendInt(append(b, `","pid":`...), pid, 10)
		b = append(b, `,"tid":`...)
	}
	return strconv.AppendUint(b, tid, 10)
}

// openAt starts an event that has a time.
func (w *Writer) openAt(phase byte, at int64, pid int64, tid uint64) []byte {
	b := append(w.open(phase, pid, tid), `,"ts":`...)
	d := uint64(at - w.base)
	b = strconv.AppendUint(b, d/1000, 10)
	r := d % 1000
	return append(b, '.', byte('0'+r/100), byte('0'+r/10%10), byte('0'+r%10))
}

// metadata writes the name of a process or a thread.
func (w *Writer) metadata(key string, pid int64, tid uint64, n timeline.Name) {
	b := w.open('M', pid, tid)
	b = append(b, `,"name":"`...)
	b = append(b, key...)
	b = append(b, `","args":{"name":`...)
	w.out.Buf = append(appendName(b, &n), "}}"...)
}

// Open implements timeline.Sink.
func (s *sink) Open(t timeline.Track, d *timeline.Description) {
	w := (*Writer)(s)
	switch t.Kind {
	case timeline.GoroutineTrack:
		w.metadata("thread_name", w.pid, t.Of, timeline.Label(t.Of, d.Origin))
	case timeline.ThreadTrack:
		if !w.threads {
			w.threads = true
			w.metadata("process_name", w.threadsPID, 0, timeline.Name{Lead: "threads of ", Text: w.opt.ProcessName()})
		}
	}
}

// ways is how the events of each kind of track are written: with these phases, on a thread or as asynchronous events
// with an ID that begins with a text.
var ways = [...]struct {
	begin, end, instant byte
	id                  string
}{
	timeline.ProcessTrack:   {'B', 'E', 'i', ""},
	timeline.GoroutineTrack: {'B', 'E', 'i', ""},
	timeline.ThreadTrack:    {'B', 'E', 'i', ""},
	timeline.RegionTrack:    {'b', 'e', 'n', "region "},
	timeline.TaskTrack:      {'b', 'e', 'n', "task "},
	timeline.GCTrack:        {'b', 'e', 'n', "gc "},
	timeline.STWTrack:       {'b', 'e', 'n', "stw "},
	timeline.LostTrack:      {'b', 'e', 'n', "lost "},
}

// openOn starts an event on a track.
func (w *Writer) openOn(phase byte, at int64, t timeline.Track) []byte {
	switch t.Kind {
	case timeline.GoroutineTrack:
		return w.openAt(phase, at, w.pid, t.Of)
	case timeline.ThreadTrack:
		return w.openAt(phase, at, w.threadsPID, t.Of)
	}
	way := &ways[t.Kind]
	tid := uint64(0)
	if t.Kind == timeline.RegionTrack {
		tid = t.Of
	}
	b := w.openAt(phase, at, w.pid, tid)
	if way.id == "" {
		return b
	}
	b = append(append(b, `,"id":"`...), way.id...)
	return append(strconv.AppendUint(b, t.Of, 10), '"')
}

// Begin implements timeline.Sink.
func (s *sink) Begin(at int64, t timeline.Track, slice *timeline.Slice) {
	w := (*Writer)(s)
	w.describe(w.openOn(ways[t.Kind].begin, at, t), slice)
	w.flow(at, t, slice)
}

// Instant implements timeline.Sink.
func (s *sink) Instant(at int64, t timeline.Track, slice *timeline.Slice) {
	w := (*Writer)(s)
	b := w.openOn(ways[t.Kind].instant, at, t)
	switch t.Kind {
	case timeline.GoroutineTrack, timeline.ThreadTrack:
		b = append(b, `,"s":"t"`...)
	case timeline.ProcessTrack:
		b = append(b, `,"s":"p"`...)
	}
	w.describe(b, slice)
	w.flow(at, t, slice)
}

// flow writes the event that ties a slice to a flow, after that of the slice itself.
func (w *Writer) flow(at int64, t timeline.Track, s *timeline.Slice) {
	var b []byte
	switch s.Role {
	case timeline.NoFlow:
		return
	case timeline.FlowBegins:
		b = w.openOn('s', at, t)
	case timeline.FlowEnds:
		b = append(w.openOn('f', at, t), `,"bp":"e"`...)
	}
	b = strconv.AppendUint(append(b, `,"cat":"flow","name":"flow","id":`...), s.Flow, 10)
	w.out.Buf = append(b, '}')
}

// describe completes an event with its description.
func (w *Writer) describe(b []byte, s *timeline.Slice) {
	b = append(append(b, `,"cat":"`...), s.Category.String()...)
	b = appendName(append(b, `","name":`...), &s.Name)
	args := s.Args()
	next := `,"args":{`
	for i := range args {
		b = appendArg(append(b, next...), &args[i])
		next = ","
	}
	if s.Stack != nil && len(s.Stack.Frames) > 0 && w.opt.Frames > 0 {
		b = append(append(b, next...), w.stack(s.Stack)...)
		next = ","
	}
	if next == "," {
		b = append(b, '}')
	}
	w.out.Buf = append(b, '}')
}

// End implements timeline.Sink.
func (s *sink) End(at int64, t timeline.Track, name timeline.Name, how timeline.Ending) {
	w := (*Writer)(s)
	way := &ways[t.Kind]
	b := w.openOn(way.end, at, t)
	if way.id != "" { // such ends are matched by category and name
		b = append(append(b, `,"cat":"`...), t.Kind.Category().String()...)
		b = appendName(append(b, `","name":`...), &name)
	}
	if key, text, ok := how.Note(); ok {
		b = appendArg(append(b, `,"args":{`...), &timeline.Arg{Key: key, Text: text, IsText: true})
		b = append(b, '}')
	}
	w.out.Buf = append(b, '}')
}

// Counter implements timeline.Sink.
func (s *sink) Counter(at int64, c timeline.Counter, value int64) {
	w := (*Writer)(s)
	b := append(w.openAt('C', at, w.pid, 0), `,"name":"`...)
	b = append(append(b, c.String()...), `","args":{"`...)
	unit := "count"
	if c.Bytes() {
		unit = "bytes"
	}
	b = append(append(b, unit...), `":`...)
	w.out.Buf = append(strconv.AppendInt(b, value, 10), "}}"...)
}
