package loupe_test

import (
	"context"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// slowStart is an engine whose observer is kept from running just after it has enabled the probes, as on a busy machine.
type slowStart struct{ probe.Engine }

func (s slowStart) Enable() {
	s.Engine.Enable()
	time.Sleep(20 * time.Millisecond)
}

// TestStatesComeFirst has events occur before the observer goes on to read the states: the time of these states is not
// later than that of any event.
func TestStatesComeFirst(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "churn"}))
	for name, engine := range map[string]probe.Engine{"uprobe": uprobe.New(uprobe.Options{}), "inline": inline.New(nil, "")} {
		t.Run(name, func(t *testing.T) {
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			before := time.Now().UnixNano()
			s, err := probe.OpenRunning(context.Background(), p, slowStart{engine}, probe.Want{Kinds: event.KindsDefault, BufferBytes: 16 << 20})
			if err != nil {
				p.Close()
				t.Fatal(err)
			}
			defer s.Close()
			var states, others int
			var at int64
			for e := range s.Events() {
				switch {
				case e.Kind == event.GoStatus:
					states++
					at = e.Time
				case e.Time < at:
					t.Fatalf("%v of goroutine %d is %v older than the first states", e.Kind, e.G, time.Duration(at-e.Time))
				default:
					others++
				}
				if others == 1000 {
					break
				}
			}
			if states == 0 || at < before {
				t.Errorf("%d states, %v before the observation began", states, time.Duration(before-at))
			}
		})
	}
}
