package testsets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testsets/parcel"
	"github.com/loupe-go/loupe/internal/testsets/tally"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// inbox collects what a set reports.
type inbox struct {
	mu   sync.Mutex
	sent []parcel.Sent
}

func (b *inbox) add(s parcel.Sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, s)
}

func (b *inbox) all() []parcel.Sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sent)
}

func (b *inbox) await(t *testing.T, n int) []parcel.Sent {
	t.Helper()
	await(t, fmt.Sprintf("%d notes", n), func() bool { return len(b.all()) >= n })
	return b.all()
}

// TestParcels reports texts behind pointers of a library's structs, at two versions.
func TestParcels(t *testing.T) {
	each(t, depots(t), func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		var in inbox
		set := parcel.New(in.add)
		s := observe(t, target, engine, probe.Want{StackDepth: 16, Sets: []*probe.Set{set}})
		if w := slices.DeleteFunc(s.Warnings(), func(w event.Warning) bool {
			return w.Kind == event.WarnTimes || w.Kind == event.WarnState // not every machine has a reliable counter, or is idle
		}); len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		target.Command("send 3 Möbel Hauptstraße Ulm")
		for i, sent := range in.await(t, 3) {
			want := parcel.Sent{G: 1, Chain: []parcel.Parcel{{Weight: i, Label: "Möbel", Street: "Hauptstraße", City: "Ulm", Length: 6}}}
			if f := sent.Stack; f == nil || len(f.Frames) < 2 || f.Frames[0].Func != "main.(*depot).send" {
				t.Errorf("stack %+v", f)
			}
			if sent.Stack = nil; !reflect.DeepEqual(sent, want) {
				t.Errorf("%+v, want %+v", sent, want)
			}
		}
		target.Command("chain 3")
		target.Command("chain 40")
		target.Command("ring")
		sent := in.await(t, 6)[3:]
		for i, want := range []struct {
			n     int
			marks probe.Marks
		}{{3, 0}, {4, probe.MarkCut}, {4, probe.MarkCut}} {
			if got := sent[i]; len(got.Chain) != want.n || got.Marks != want.marks {
				t.Errorf("chain of %d, marks %b, want %d, %b", len(got.Chain), got.Marks, want.n, want.marks)
			}
		}
		if last := sent[0].Chain[2]; last.Label != "link 3" || last.Weight != 3 {
			t.Errorf("last of the chain: %+v", last)
		}
		c, err := s.SetNumbers(set)
		if want := (probe.SetCounts{Counts: event.Counts{Produced: 6, Received: 6}, Cut: 2}); err != nil || c != want {
			t.Errorf("%+v, %v, want %+v", c, err, want)
		}
	})
}

// TestHostile reports labels that are not valid memory.
func TestHostile(t *testing.T) {
	each(t, stripped(t), func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		var in inbox
		set := parcel.New(in.add)
		s := observe(t, target, engine, probe.Want{Sets: []*probe.Set{set}})
		long := "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefg"
		target.Command("send 1 " + long + " street city")
		cases := []struct {
			name  string
			marks probe.Marks
			label string
		}{
			{"huge", probe.MarkCut, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
			{"negative", probe.MarkImpossible, ""}, {"border", probe.MarkUnreadable, ""}, {"unmapped", probe.MarkUnreadable, ""},
			{"kernel", probe.MarkUnreadable, ""}, {"low", probe.MarkUnreadable, ""}, {"nil", probe.MarkUnreadable, ""},
		}
		for _, c := range cases {
			target.Command("hostile " + c.name)
		}
		sent := in.await(t, 1+len(cases))
		if p := sent[0].Chain[0]; p.Label != long[:64] || p.Marks != probe.MarkCut || p.Length != 65 {
			t.Errorf("a long label: %+v", p)
		}
		for i, c := range cases {
			p := sent[i+1].Chain[0]
			if p.Label != c.label || p.Marks != c.marks || sent[i+1].Marks != c.marks || p.City != c.name || p.Street != "hostile" {
				t.Errorf("%s: %+v, marks %b", c.name, p, sent[i+1].Marks)
			}
		}
		n, err := s.SetNumbers(set)
		want := probe.SetCounts{Counts: event.Counts{Produced: 8, Received: 8}, Cut: 2, NotRead: 5, Impossible: 1}
		if err != nil || n != want {
			t.Errorf("%+v, %v, want %+v", n, err, want)
		}
	})
}

// TestParcelsUnderLoad sends parcels in goroutines whose stacks grow while the collector runs: each is counted, and reported
// whole.
func TestParcelsUnderLoad(t *testing.T) {
	each(t, stripped(t), func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		set := parcel.New(func(s parcel.Sent) {
			if len(s.Chain) != 1 || s.Chain[0].Label != "load" || s.Chain[0].City != "city" || s.Marks != 0 {
				t.Errorf("%+v", s)
			}
		})
		s := observe(t, target, engine, probe.Want{Sets: []*probe.Set{set}})
		target.Command("load 500")
		s.end()
		n, err := s.SetNumbers(set)
		if err != nil || n.Produced != 4000 || n.Received+n.Lost != 4000 || n.Received == 0 || n.Garbled > 0 {
			t.Errorf("%+v, %v", n, err)
		}
	})
}

// TestConfined observes a program under a seccomp filter that ends it for the system call by which engine inline can read memory.
// The engine does not need the call for memory of the heap.
func TestConfined(t *testing.T) {
	spec := depots(t)[0]
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first=%t", first), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			if first {
				target.Command(confine)
			}
			var in inbox
			s := observe(t, target, engines["inline"](), probe.Want{Sets: []*probe.Set{parcel.New(in.add)}})
			if !first {
				target.Command("send 1 label street city")
				target.Command(confine)
			}
			target.Command("send 2 label street city")
			for _, sent := range in.await(t, 2) {
				if sent.Marks != 0 || sent.Chain[0].City != "city" {
					t.Errorf("%+v", sent)
				}
			}
			if w := event.WarningTexts(s.Warnings()); slices.ContainsFunc(w, func(text string) bool { return strings.Contains(text, "seccomp") }) {
				t.Errorf("warnings %q", w)
			}
		})
	}
}

var confine = fmt.Sprintf("confine %d", unix.SYS_PROCESS_VM_READV)

// TestConfinedHeapUnknown does the same with a program whose freed memory becomes unreadable. Before the engine attaches, it refuses;
// afterwards it stops reading, and says so.
func TestConfinedHeapUnknown(t *testing.T) {
	spec := depots(t)[0]
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(os.Environ(), "GODEBUG=efence=1")
	target := testtarget.StartCmd(t, cmd)
	var in inbox
	s := observe(t, target, engines["inline"](), probe.Want{Sets: []*probe.Set{parcel.New(in.add)}})
	warned := func(what string) bool {
		return slices.ContainsFunc(event.WarningTexts(s.Warnings()), func(text string) bool { return strings.Contains(text, what) })
	}
	if !warned("each read of a library's memory takes 1 µs or more") || !warned("GODEBUG=efence=1") {
		t.Errorf("warnings %q", s.Warnings())
	}
	target.Command("send 1 label street city")
	target.Command(confine)
	await(t, "warning", func() bool { return warned("seccomp") })
	target.Command("send 1 label street city")
	sent := in.await(t, 2)
	if sent[0].Marks != 0 || sent[1].Marks != probe.MarkUnreadable {
		t.Errorf("%+v", sent)
	}
	s.end()

	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := probe.Want{Sets: []*probe.Set{parcel.New(func(parcel.Sent) {})}, BufferBytes: 1 << 20}
	_, err = probe.OpenRunning(context.Background(), p, engines["inline"](), want)
	if !errors.Is(err, probe.ErrUnsupported) || !strings.Contains(err.Error(), "seccomp") || !strings.Contains(err.Error(), "efence") {
		t.Errorf("error %v", err)
	}
}

// TestAnyAddress reads labels at any addresses near the heap and near the executable: reserved, freed, or not mapped. The program works
// on.
func TestAnyAddress(t *testing.T) {
	for _, spec := range stripped(t) {
		t.Run(spec.String(), func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, spec))
			readable := 0
			set := parcel.New(func(s parcel.Sent) {
				if s.Marks == 0 {
					readable++
				} else if s.Marks != probe.MarkUnreadable && s.Marks != probe.MarkCut {
					t.Errorf("%+v", s)
				}
			})
			s := observe(t, target, engines["inline"](), probe.Want{Sets: []*probe.Set{set}})
			const sent = 50000
			for range 10 {
				target.Command(fmt.Sprint("addresses ", sent/10))
			}
			s.end()
			n, err := s.SetNumbers(set)
			if err != nil || n.Produced != sent || n.Received+n.Lost != sent || readable == 0 || n.NotRead == 0 {
				t.Errorf("%+v, %d readable, %v", n, readable, err)
			}
		})
	}
}

// execer is an engine whose target executes its program once more after the engine has found its memory.
type execer struct {
	probe.Engine
	exec, enabled func()
}

func (e execer) Attach(plan *probe.Plan) ([]event.Warning, error) {
	find := plan.StableMemory
	plan.StableMemory = func() (goproc.StableMemory, error) {
		defer e.exec()
		return find()
	}
	return e.Engine.Attach(plan)
}

func (e execer) Enable() {
	e.Engine.Enable()
	e.enabled()
}

// TestExecAfterStableMemory has a program replace itself by itself when engine inline knows addresses in its memory, which mean nothing
// in the new one: the engine does not attach.
func TestExecAfterStableMemory(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, depots(t)[0]))
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	send := func() { target.Command("send 1 label street city") }
	engine := execer{engines["inline"](), func() { target.Command("exec") }, send}
	want := probe.Want{Sets: []*probe.Set{parcel.New(func(parcel.Sent) {})}, BufferBytes: 1 << 20}
	if _, err := probe.OpenRunning(context.Background(), p, engine, want); !errors.Is(err, goproc.ErrReplaced) {
		t.Errorf("error %v", err)
	}
	if at, left, err := ptrace.OccupiedBy(target.PID()); left || err != nil {
		t.Errorf("memory at %#x is left, %v", at, err)
	}
	send()
}

// TestUnknownVersion observes a stripped program with a version of the library that the table of offsets does not have: the set
// is off and says so, others work.
func TestUnknownVersion(t *testing.T) {
	each(t, stripped(t)[:1], func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		set := parcel.New(func(s parcel.Sent) { t.Errorf("%+v", s) })
		set.Settings[0].Offsets = nil
		const why = "parcels are not reported: the offset of example.com/parcel.Parcel.Weight is unknown in this executable"
		p, err := goproc.Open(target.PID(), goproc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = probe.OpenRunning(context.Background(), p, again(engine), probe.Want{Sets: []*probe.Set{set}, BufferBytes: 1 << 20})
		if !errors.Is(err, probe.ErrNothing) || !strings.Contains(err.Error(), why) {
			t.Errorf("alone: %v", err)
		}
		kinds := tally.New(10)
		s := observe(t, target, engine, probe.Want{Sets: []*probe.Set{set, kinds}})
		if w := s.Warnings(); !slices.Contains(event.WarningTexts(w), why) {
			t.Errorf("warnings %q", w)
		}
		target.Command("send 1 label street city")
		target.Command("weigh 3 5")
		if c, err := s.Table(kinds, tally.Kinds); err != nil || c.Keys[3].Counted != 5 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// TestOffsets compares the table of offsets with the DWARF of each version.
func TestOffsets(t *testing.T) {
	for _, spec := range depots(t) {
		bin := probetest.Open(t, spec).Binary()
		set := parcel.New(nil)
		var paths []string
		for _, s := range set.Settings {
			paths = append(paths, s.Fields...)
		}
		got, err := bin.FieldOffsets(paths)
		if err != nil || spec.Stripped != (len(got) == 0) {
			t.Fatalf("%s: %v, %v", spec, got, err)
		}
		for _, s := range set.Settings {
			i := slices.IndexFunc(s.Fields, func(path string) bool { _, ok := got[path]; return ok })
			if i < 0 {
				if !spec.Stripped {
					t.Errorf("%s: DWARF has no %s", spec, s.Fields)
				}
				continue
			}
			version := 0
			if spec.Module == parcel.Module+" v1.5.1 ./parcel2" {
				version = 1
			}
			if want := s.Offsets[version].Offset; got[s.Fields[i]] != want {
				t.Errorf("%s: %s at %d, the table has %d", spec, s.Name, got[s.Fields[i]], want)
			}
		}
	}
}

// TestComeAndGo attaches and detaches while a program calls the probed function on several threads: the program does all of its
// work.
func TestComeAndGo(t *testing.T) {
	each(t, depots(t)[:1], func(t *testing.T, target *testtarget.Process, engine probe.Engine) {
		var stop atomic.Bool
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			cycles := 0
			for ; !stop.Load(); cycles++ {
				if err := comeAndGo(target.PID(), again(engine)); err != nil {
					t.Errorf("cycle %d: %v", cycles, err)
					break
				}
			}
			t.Logf("%d cycles", cycles)
		}()
		for i := 0; i < 5; i++ {
			if got := target.Command("load 2000"); got != "load 2000" {
				t.Errorf("the program answers %q", got)
			}
			target.Command("kinds 50")
		}
		stop.Store(true)
		<-stopped
	})
}

// comeAndGo observes a process for a moment.
func comeAndGo(pid int, engine probe.Engine) error {
	p, err := goproc.Open(pid, goproc.Options{})
	if err != nil {
		return err
	}
	want := probe.Want{Sets: []*probe.Set{parcel.New(func(parcel.Sent) {}), tally.New(100)}, BufferBytes: 1 << 20}
	s, err := probe.OpenRunning(context.Background(), p, engine, want)
	if err != nil {
		return err
	}
	time.Sleep(5 * time.Millisecond)
	return s.Close()
}

// again returns a new engine of the same kind.
func again(e probe.Engine) probe.Engine {
	if _, ok := e.(*inline.Engine); ok {
		return engines["inline"]()
	}
	return engines["uprobe"]()
}
