package exporttest

import (
	"fmt"
	"math"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export/timeline"
	"github.com/loupe-go/loupe/internal/term"
)

// Recorder is a timeline.Sink that draws.
type Recorder struct {
	Drawing
	Frames int // of a stack; 0 means all
	base   int64
}

// TrackText returns a track as in an Item.
func TrackText(t timeline.Track) string {
	switch t.Kind {
	case timeline.GoroutineTrack:
		return fmt.Sprintf("g %d", t.Of)
	case timeline.RegionTrack:
		return fmt.Sprintf("g %d regions", t.Of)
	case timeline.ThreadTrack:
		return fmt.Sprintf("thread %d", t.Of)
	case timeline.TaskTrack:
		return fmt.Sprintf("task %d", t.Of)
	case timeline.GCTrack:
		return "GC"
	case timeline.STWTrack:
		return "stop the world"
	case timeline.LostTrack:
		return "lost events"
	}
	return "process"
}

// Start implements timeline.Sink.
func (r *Recorder) Start(base int64, _ int32) { r.base = base }

// Open implements timeline.Sink.
func (r *Recorder) Open(t timeline.Track, d *timeline.Description) {
	if t.Kind == timeline.GoroutineTrack {
		n := timeline.Label(t.Of, d.Origin)
		r.Items = append(r.Items, Item{What: 'T', Track: TrackText(t), Name: string(n.AppendTo(nil))})
	}
}

// Begin implements timeline.Sink.
func (r *Recorder) Begin(at int64, t timeline.Track, s *timeline.Slice) { r.describe('B', at, t, s) }

// Instant implements timeline.Sink.
func (r *Recorder) Instant(at int64, t timeline.Track, s *timeline.Slice) { r.describe('I', at, t, s) }

func (r *Recorder) describe(what byte, at int64, t timeline.Track, s *timeline.Slice) {
	i := Item{What: what, At: at - r.base, Track: TrackText(t), Name: string(s.Name.AppendTo(nil)), Category: s.Category.String()}
	switch s.Role {
	case timeline.FlowBegins:
		i.Flow = fmt.Sprintf("> %d", s.Flow)
	case timeline.FlowEnds:
		i.Flow = fmt.Sprintf("< %d", s.Flow)
	}
	frames := r.Frames
	if frames == 0 {
		frames = math.MaxInt
	}
	i.Stack = StackText(s.Stack, frames)
	for _, a := range s.Args() {
		i.Args = append(i.Args, argText(&a))
	}
	r.Items = append(r.Items, i)
}

func argText(a *timeline.Arg) string {
	switch {
	case a.IsText:
		return fmt.Sprintf("%s=%s", a.Key, term.Escape(a.Text))
	case a.Key == timeline.KeyObject:
		return fmt.Sprintf("%s=0x%x", a.Key, uint64(a.Number))
	}
	return fmt.Sprintf("%s=%d", a.Key, a.Number)
}

// End implements timeline.Sink.
func (r *Recorder) End(at int64, t timeline.Track, _ timeline.Name, how timeline.Ending) {
	i := Item{What: 'E', At: at - r.base, Track: TrackText(t)}
	if key, text, ok := how.Note(); ok {
		i.Args = []string{fmt.Sprintf("%s=%s", key, text)}
	}
	r.Items = append(r.Items, i)
}

// Counter implements timeline.Sink.
func (r *Recorder) Counter(at int64, c timeline.Counter, value int64) {
	r.Items = append(r.Items, Item{What: 'C', At: at - r.base, Track: c.String(), Value: value})
}

// Record draws a stream. flowsNeedSlices is as in timeline.New, frames as in Recorder.
func Record(events []event.Event, opt timeline.Options, flowsNeedSlices bool, frames int) (*Drawing, timeline.Stats) {
	r := &Recorder{Frames: frames}
	tl := timeline.New(r, opt, flowsNeedSlices)
	for i := range events {
		tl.Apply(&events[i])
	}
	tl.Close()
	return &r.Drawing, tl.Stats()
}
