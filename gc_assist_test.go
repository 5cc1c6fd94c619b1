package loupe_test

import (
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/sched"
)

// TestMarkAssists observes a program whose goroutine has to assist the garbage collector. It compares the time with the runtime's own
// account, which it updates at the end of a collection.
func TestMarkAssists(t *testing.T) {
	for _, version := range testtarget.Ends(t, testtarget.Versions()) {
		t.Run("go"+version, func(t *testing.T) {
			target := burn(t, testtarget.Spec{Go: version}, "gc")
			defer target.Stop()
			p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			memory := func() *event.GCMemory {
				t.Helper()
				m, err := p.Memory(t.Context(), loupe.MemoryOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return &m.GC
			}
			kinds := event.KindsDefault
			s := attach(t, target.PID(), loupe.Options{Kinds: kinds})
			m, done := sched.New(sched.Options{Kinds: kinds}), make(chan struct{})
			go func() {
				defer close(done)
				m.ApplyAll(s.Events())
			}()
			first, began := memory(), time.Now()
			last := first
			for time.Since(began) < time.Minute && (last.Cycles < first.Cycles+50 || time.Since(began) < time.Second) {
				time.Sleep(10 * time.Millisecond)
				last = memory()
			}
			s.Detach()
			<-done
			s.Close()
			got := m.Totals()
			begins, ends := got.Kinds[event.GCMarkAssistBegin], got.Kinds[event.GCMarkAssistEnd]
			took := got.GCAssist.Duration()
			t.Logf("%d collections, %d assists began and %d ended, %v in them; %d events lost", last.Cycles-first.Cycles, begins, ends, took, s.Stats().Lost)
			if s.Stats().Lost == 0 && (begins < 20 || max(begins, ends)-min(begins, ends) > 1) { // one may be in progress
				t.Errorf("%d assists began, %d ended", begins, ends)
			}
			if last.CPU == nil { // before Go 1.20 the runtime keeps the time of the current collection only
				return
			}
			own := last.CPU.Assist - first.CPU.Assist
			t.Logf("by the runtime's account %v", own)
			// The runtime's time includes the probes. Of the first and the last collection a part is observed only.
			const probes = 20 * time.Microsecond
			inexact := own/5 + 5*time.Millisecond
			if s.Stats().Lost == 0 && (took > own+inexact || took < own-inexact-probes*time.Duration(begins)) {
				t.Errorf("goroutines assisted for %v, by the runtime's account %v", took, own)
			}
		})
	}
}
