package join

import (
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/spans"
)

// TestNoTimes serves a request without observing waits: how its time was spent is unknown.
func TestNoTimes(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Kinds = event.KindsOf(event.GoCreate, event.GoDestroy) })
	s := w.begin(1, server, "serve")
	w.create(2, 1)
	w.end(s)
	if s.Work == nil || s.Work.Own != (spans.Times{}) || s.Work.Started != (spans.Times{}) || s.Work.Created != 0 || len(s.Work.Attributes()) != 0 {
		t.Errorf("%+v", s.Work)
	}
}
