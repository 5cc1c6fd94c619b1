package loupe_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestForeignNoticed has uprobes come to places of engine inline and go again: the session says so, and marks the events
// around them.
func TestForeignNoticed(t *testing.T) {
	p := share(t, testtarget.Latest())
	var at []breakpoint
	for _, pt := range p.ours {
		if pt.function == "runtime.makechan" || pt.function == "runtime.gopark" {
			at = append(at, pt)
		}
	}
	if len(at) != 2 {
		t.Fatalf("places %v", at)
	}
	o := p.observe(t)
	defer o.close(t)
	told := func(texts ...string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			all := strings.Join(event.WarningTexts(o.s.Warnings()), "\n")
			there := 0
			for _, text := range texts {
				if strings.Contains(all, text) {
					there++
				}
			}
			if there == len(texts) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("not told of %q: %q", texts, all)
			}
		}
	}
	if w := besidesTimes(o.s.Warnings()); len(w) > 0 {
		t.Fatalf("warnings without another tracer: %q", w)
	}
	time.Sleep(1500 * time.Millisecond)
	// On a busy machine events are lost because the buffer is full. A mark without a number ends each such gap.
	before := o.marks.Load()
	if w, lost := besidesTimes(o.s.Warnings()), o.s.Stats().Lost; len(w) > 0 || before > 0 && lost == 0 {
		t.Fatalf("without another tracer: %d marks, %d events lost, warnings %q", before, lost, w)
	}
	stop := uprobes(t, p, at)
	told("another tracer has a breakpoint at runtime.", "runtime.gopark+", "runtime.makechan+")
	stop()
	told("was removed: events there are reported again", "events there are missing until Loupe attaches again")
	for deadline := time.Now().Add(30 * time.Second); o.marks.Load() == before; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no mark of missing events")
		}
	}
	p.check(t, "", false)
}

// TestCloseBesideDebugger closes a session while gdb holds the process: that fails and names gdb, and what to do; and works
// when gdb has gone.
func TestCloseBesideDebugger(t *testing.T) {
	p := share(t, testtarget.Latest())
	o := p.observe(t)
	stop := gdb(t, p, rare(p.usual, true)[:1])
	err := o.s.Close()
	if held := (*ptrace.TracedError)(nil); !errors.As(err, &held) || held.Name != "gdb" ||
		!strings.Contains(err.Error(), fmt.Sprintf("loupe doctor %d --repair", p.PID())) || !strings.Contains(err.Error(), "gdb (process") {
		t.Errorf("detaching beside gdb: %v", err)
	}
	p.check(t, "", false)
	stop()
	o.close(t)
	p.check(t, "after the second try", true)
}

// TestCloseFrozen closes a session while the target's cgroup is frozen: that fails and names what to do; and works when the
// target runs again.
func TestCloseFrozen(t *testing.T) {
	for _, freezer := range testtarget.Freezers(t) {
		t.Run(freezer.Root, func(t *testing.T) {
			p := share(t, testtarget.Latest())
			freezer.Add(t, p.PID())
			o := p.observe(t)
			freezer.Freeze(t)
			for range 2 {
				err := o.s.Close()
				still := (*ptrace.StillError)(nil)
				if !errors.As(err, &still) && !errors.Is(err, ptrace.ErrBusy) || !strings.Contains(err.Error(), "frozen") ||
					!strings.Contains(err.Error(), fmt.Sprintf("run loupe doctor %d --repair", p.PID())) {
					t.Errorf("detaching from a frozen process: %v", err)
				}
			}
			freezer.Thaw(t)
			o.close(t)
			p.check(t, "after the last try", true)
		})
	}
}

// besidesTimes returns warnings without those about times: not every machine has a reliable counter.
func besidesTimes(warnings []event.Warning) []event.Warning {
	return slices.DeleteFunc(warnings, func(w event.Warning) bool { return w.Kind == event.WarnTimes })
}
