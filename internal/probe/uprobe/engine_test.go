package uprobe

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// planFor returns a plan for a running target.
func planFor(t *testing.T, pid int) *probe.Plan {
	t.Helper()
	p, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	plan, warnings, err := probe.NewPlan(p, probe.Want{Kinds: event.KindsDefault, StackDepth: 16, BufferBytes: 1 << 20})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	return plan
}

// TestOneProbeFails breaks one probe after the other, in the ways a kernel may refuse one: the others must work and the
// user be told what is missing.
func TestOneProbeFails(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	for name, breakIt := range map[string]func(*probe.Probe){
		"no such place in the file": func(p *probe.Probe) { p.Sites[len(p.Sites)-1].Offset = 1 << 40 },
		"no such program":           func(p *probe.Probe) { p.Program = "none" },
	} {
		for _, single := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				plan := planFor(t, target.PID())
				var without string
				for i := range plan.Probes {
					if plan.Probes[i].ID == csrc.ProbesLoupeProbePROBE_execute {
						without = plan.Probes[i].Without
						breakIt(&plan.Probes[i])
					}
				}
				e := New(Options{SingleUprobes: single})
				defer e.Release()
				defer e.Close()
				warnings, err := e.Attach(plan)
				if err != nil {
					t.Fatal(err)
				}
				warnings = slices.DeleteFunc(warnings, func(w event.Warning) bool {
					return !single && !e.multi && strings.HasPrefix(w.Text, "this kernel attaches uprobes one by one")
				})
				if len(warnings) != 1 || !strings.HasPrefix(warnings[0].Text, without) {
					t.Errorf("warnings %q, want one that %s", warnings, without)
				}
				e.Enable()
				target.Command("spawn 500")
				counts, err := e.Counts()
				if err != nil {
					t.Fatal(err)
				}
				if n := counts[event.GoCreate].Produced; n < 500 {
					t.Errorf("%d creations", n)
				}
				if n := counts[event.GoStart].Produced; n != 0 {
					t.Errorf("%d starts by a probe that was not attached", n)
				}
			})
		}
	}
}

// TestAllProbesFail is an error.
func TestAllProbesFail(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	plan := planFor(t, target.PID())
	for i := range plan.Probes {
		for j := range plan.Probes[i].Sites {
			plan.Probes[i].Sites[j].Offset = 1 << 40
		}
	}
	e := New(Options{})
	defer e.Release()
	defer e.Close()
	if _, err := e.Attach(plan); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("attached without a probe: %v", err)
	}
}

// TestTwoSets attaches a probe of each of two sets at the same place: both fire, into the same buffer.
func TestTwoSets(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	other := &probe.Set{Name: "the same again", Code: &csrc.Runtime, Probes: []probe.Declaration{
		{Program: "goexit0", Funcs: []string{"runtime.goexit0"}, Words: 1, Without: "exits are not reported"},
	}}
	plan, _, err := probe.NewPlan(p, probe.Want{Kinds: event.KindsOf(event.GoDestroy), BufferBytes: 1 << 20, Sets: []*probe.Set{other}})
	if err != nil {
		t.Fatal(err)
	}
	e := New(Options{})
	defer e.Release()
	defer e.Close()
	if _, err := e.Attach(plan); err != nil {
		t.Fatal(err)
	}
	e.Enable()
	target.Command("spawn 500")
	// The last goroutines may not have reached goexit0 when the program has counted them as done.
	exits := uint64(0)
	for end := time.Now().Add(time.Minute); (exits < 1000 || exits%2 != 0) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		counts, err := e.Counts()
		if err != nil {
			t.Fatal(err)
		}
		exits = counts[event.GoDestroy].Produced
	}
	if exits < 1000 || exits%2 != 0 {
		t.Errorf("%d exits, want an even number of at least 1000", exits)
	}
	received := uint64(0)
	e.Drain(func([]byte) bool { received++; return true })
	if received < 1000 {
		t.Errorf("%d records, want at least 1000", received)
	}
}

// TestRing drains records as the probes reserve them, across the end of the buffer.
func TestRing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	plan := planFor(t, target.PID())
	plan.Want.BufferBytes = 64 << 10
	e := New(Options{})
	defer e.Release()
	defer e.Close()
	if _, err := e.Attach(plan); err != nil {
		t.Fatal(err)
	}
	e.Enable()
	var received [event.KindLimit]uint64
	drain := func() {
		e.Drain(func(raw []byte) bool {
			if len(raw) < int(unsafe.Sizeof(csrc.Record{})) {
				t.Fatalf("a record of %d bytes", len(raw))
			}
			received[(*csrc.Record)(unsafe.Pointer(&raw[0])).Kind]++
			return true
		})
	}
	for range 40 { // some 600 records each, of a buffer for 1000
		target.Command("spawn 100")
		drain()
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	drain()
	counts, err := e.Counts()
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range counts {
		if event.Kind(kind) == event.GoStatus || uint8(kind) == csrc.KindStack {
			continue
		}
		if c.Produced != received[kind]+c.NoRoom+c.Unreadable {
			t.Errorf("%v: %d received of %+v", event.Kind(kind), received[kind], c)
		}
	}
	if n := received[event.GoCreate]; n < 3000 {
		t.Errorf("%d creations received of 4000: the buffer is drained in between", n)
	}
	e.Stop()
	if e.Wait(context.Background()) {
		t.Error("there is more to wait for after Stop")
	}
}

// TestWaitEnds returns from waiting when the target ends, and when the context does.
func TestWaitEnds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("eBPF needs root")
	}
	for _, by := range []string{"target", "context"} {
		t.Run(by, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
			e := New(Options{})
			defer e.Release()
			defer e.Close()
			if _, err := e.Attach(planFor(t, target.PID())); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for e.Wait(ctx) {
					e.Drain(func([]byte) bool { return true })
				}
			}()
			if by == "target" {
				target.Kill()
			} else {
				cancel()
			}
			<-done
		})
	}
}

// TestErrorsAreOneLine: what the kernel's verifier says has many.
func TestErrorsAreOneLine(t *testing.T) {
	e := New(Options{})
	e.plan = &probe.Plan{PID: 1}
	if err := e.explain(errors.Join(errors.New("one"), errors.New("two"))); strings.Contains(err.Error(), "\n") {
		t.Errorf("%q", err)
	}
}

// TestTableUnattached reads a table of an engine that could not attach.
func TestTableUnattached(t *testing.T) {
	if c, err := New(Options{}).Table(1, 0); err != nil || len(c.Keys) != 0 || c.Overflow != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
