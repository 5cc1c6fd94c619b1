package loupe_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/live"
	"github.com/loupe-go/loupe/sched"
)

var (
	booksFor = flag.Duration("books.for", 1200*time.Millisecond, "how long tests compare processor time and running goroutines with the kernel's accounts")
	booksAll = flag.Bool("books.all", false, "compare with the kernel's accounts on every release")
)

// held is what a stream of events says of processor time and running goroutines, beside what others say.
type held struct {
	cpu      sched.CPU
	kernel   time.Duration // utime + stime from /proc/PID/stat, at least
	atMost   time.Duration // and at most: the program ran on between two readings
	interval time.Duration
	errors   []float64 // of each part of the time: |Loupe - kernel|, as part of one processor

	sampled string // the goroutines' part of the processor time by samples of stacks; empty without samples

	lost     uint64 // events
	pictures int
	over     []string // pictures with more running goroutines than GOMAXPROCS
	off      []int    // by how much the number of running goroutines differs from that of the Ps that run one, by picture
}

// A picture is taken so often, and the kernel's accounts are read so often for it.
const (
	pictureEvery = 50 * time.Millisecond
	accountEvery = 500 * time.Millisecond
)

// partLength is the time after which the processor time is compared again. utime and stime are whole hundredths of a second.
const partLength = time.Second

// reading is the processor time by Loupe's books, and by the kernel's before and after these were read.
type reading struct{ before, loupe, after time.Duration }

// holder observes a process as loupe top does, and the same by other means.
type holder struct {
	t       *testing.T
	pid     int
	session *loupe.Session
	feed    *live.Feed
	done    chan struct{} // closed when the events have ended
}

func newHolder(t *testing.T, pid int, opt loupe.Options) *holder {
	t.Helper()
	opt.Procs, opt.BufferBytes = *engine == string(loupe.EngineInline), 64<<20 // as loupe top
	o := &holder{t: t, pid: pid, session: attach(t, pid, opt), done: make(chan struct{}),
		feed: live.NewFeed(sched.New(sched.Options{Kinds: opt.Kinds}))}
	go func() {
		defer close(o.done)
		for e := range o.session.Events() {
			o.feed.Add(e)
		}
	}()
	return o
}

// account reads the kernel's accounts as loupe top does.
func (o *holder) account() event.Usage {
	o.t.Helper()
	u, err := o.session.Usage()
	if err != nil || u.Err != nil {
		o.t.Fatal(err, u.Err)
	}
	o.feed.Advance(o.feed.Now())
	o.feed.Account(u)
	return u
}

// read reads the processor time by Loupe and by the kernel.
func (o *holder) read() (r reading) {
	o.t.Helper()
	o.feed.CatchUp(accountEvery / 2)
	r.before = processorTicks(o.t, o.pid)
	o.account()
	r.loupe, r.after = o.feed.Totals().Processor.Process.Duration(), processorTicks(o.t, o.pid)
	return r
}

// picture takes a picture, and another one after the kernel's accounts correct it.
func (o *holder) picture(h *held, account bool) {
	o.t.Helper()
	before := o.feed.Totals()
	h.pictures++
	if int(before.States.Running) > before.Processor.Procs {
		h.over = append(h.over, fmt.Sprintf("%d running on %d Ps", before.States.Running, before.Processor.Procs))
	}
	if !account {
		return
	}
	o.feed.CatchUp(accountEvery / 2)
	before = o.feed.Totals()
	u := o.account()
	after := o.feed.Totals()
	h.pictures++
	if u.Procs < 1 || int(after.States.Running) > u.Procs {
		h.over = append(h.over, fmt.Sprintf("%d running before, %d after a look at %d Ps", before.States.Running, after.States.Running, u.Procs))
	}
	off := int(before.States.Running) - len(u.Running)
	h.off = append(h.off, max(off, -off))
}

// hold observes a process for a while, longer if it hardly gets a processor, and takes pictures of it. work is called when it
// is observed, and what it returns when that ends.
func hold(t *testing.T, pid int, d time.Duration, kinds event.Kinds, work ...func() (end func())) (h held) {
	t.Helper()
	o := newHolder(t, pid, loupe.Options{Kinds: kinds})
	var ends []func()
	for _, begin := range work {
		ends = append(ends, begin())
	}
	first := o.read()
	began := time.Now()
	part, partBegan, accounted := first, began, began
	enough := func() bool { // utime and stime are whole hundredths of a second
		return o.feed.Totals().Processor.Process.Duration() > d/3 || time.Since(began) > 4*d
	}
	for time.Since(began) < d || !enough() {
		time.Sleep(pictureEvery)
		due := time.Since(accounted) >= accountEvery
		o.picture(&h, due)
		if due {
			accounted = time.Now()
		}
		if took := time.Since(partBegan); took >= partLength {
			now := o.read()
			loupe := now.loupe - part.loupe
			least, most := now.before-part.after, now.after-part.before
			h.errors = append(h.errors, max(loupe-most, least-loupe, 0).Seconds()/took.Seconds())
			part, partBegan = now, time.Now()
		}
	}
	h.interval = time.Since(began)
	last := o.read()
	h.kernel, h.atMost = last.before-first.after, last.after-first.before
	h.cpu = o.feed.Totals().Processor
	for _, end := range ends {
		end()
	}
	o.session.Close()
	<-o.done
	h.lost = o.session.Stats().Lost
	slices.Sort(h.off)
	return h
}

// processorTicks returns utime + stime of a process, to a hundredth of a second.
func processorTicks(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	utime, _ := strconv.Atoi(f[11])
	stime, _ := strconv.Atoi(f[12])
	return time.Duration(utime+stime) * (time.Second / 100)
}

func (h *held) String() string {
	c, kernel := &h.cpu, h.middle()
	return fmt.Sprintf("kernel %.3f CPUs; Loupe's process %.3f of that, goroutines %.3f, runtime %.3f; run-queue wait %.2f CPUs; %d pictures, none over: %v; running off by p50 %d, p99 %d; %d threads, GOMAXPROCS %d",
		kernel/h.interval.Seconds(), c.Process.Seconds()/kernel, c.Goroutines.Seconds()/kernel, c.Runtime.Seconds()/kernel, c.RunQueue.Seconds()/h.interval.Seconds(), h.pictures, len(h.over) == 0,
		h.off[len(h.off)/2], h.off[len(h.off)*99/100], c.Threads, c.Procs)
}

// middle returns the processor time by the kernel in seconds, in the middle of its bounds.
func (h *held) middle() float64 { return max(h.atMost+h.kernel, 1).Seconds() / 2 }

// goroutines returns which part of the processor time goroutines used, by Loupe.
func (h *held) goroutines() float64 {
	return h.cpu.Goroutines.Seconds() / max(h.cpu.Process.Seconds(), 1e-9)
}

// check fails the test for numbers that cannot be.
func (h *held) check(t *testing.T) {
	t.Helper()
	t.Log(h)
	if len(h.over) > 0 {
		t.Errorf("more goroutines run than there are Ps in %d of %d pictures: %q", len(h.over), h.pictures, h.over[0])
	}
	const ticks = 30 * time.Millisecond // utime and stime are rounded
	if got := h.cpu.Process.Duration(); got < h.kernel*9/10-ticks || got > h.atMost*11/10+ticks {
		t.Errorf("processor time %v, utime and stime have grown by %v to %v", got, h.kernel, h.atMost)
	}
	if sum := h.cpu.Goroutines.Add(h.cpu.Runtime); sum != h.cpu.Process {
		t.Errorf("goroutines and the runtime used %v, the process %v", sum.Duration(), h.cpu.Process.Duration())
	}
}

// compared is a program that is at work, and what is compared of it with the kernel's accounts.
type compared struct {
	name, release string
	lack          string // what it needs and the machine lacks
	run           func(*testing.T, event.Kinds) held
}

// programsOfOwn are programs that are built with a release.
func programsOfOwn(release string) []compared {
	spec := func(name string, cgo bool) testtarget.Spec {
		return testtarget.Spec{Program: name, Go: release, Cgo: cgo}
	}
	always := func(spec testtarget.Spec, args ...string) compared {
		return compared{spec.Program, release, spec.Unsupported(), func(t *testing.T, kinds event.Kinds) held {
			p := testtarget.Start(t, testtarget.Build(t, spec), args...)
			return hold(t, p.PID(), *booksFor, kinds)
		}}
	}
	return []compared{
		always(spec("churn", false), "2"), always(spec("coder", false), "8"), always(spec("mixer", true), "2"),
		{"mill", release, "", func(t *testing.T, kinds event.Kinds) held { return holdBusy(t, spec("mill", false), kinds) }},
	}
}

// holdBusy has goroutines compute: nearly all processor time is theirs.
func holdBusy(t *testing.T, spec testtarget.Spec, kinds event.Kinds) held {
	cmd := testcmd.Within(t, 0, testtarget.Build(t, spec))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	p := testtarget.StartCmd(t, cmd)
	var burning sync.WaitGroup
	var over atomic.Bool
	h := hold(t, p.PID(), *booksFor, kinds, func() (end func()) {
		burning.Go(func() {
			for !over.Load() {
				p.Command("burn 500")
			}
		})
		return func() {
			over.Store(true)
			burning.Wait()
		}
	})
	if got := h.goroutines(); got < 0.9 {
		t.Errorf("goroutines that compute used %.3f of the processor time", got)
	}
	return h
}

// holdServer observes a public server under load, while the kernel samples what its threads execute.
func holdServer(t *testing.T, spec realtarget.Spec, kinds event.Kinds) held {
	target := spec.Start(t)
	load := target.StartLoad()
	load.Await(t, 20)
	var samples stackSamples
	h := hold(t, target.PID(), max(*booksFor, 2*time.Second), kinds, func() (end func()) {
		count := sampleStacks(t, target.PID())
		return func() { samples = count() }
	})
	if _, wrong := load.Stop(); wrong != nil {
		t.Errorf("a wrong answer while observed: %v", wrong)
	}
	if least := int(sampleRate * h.cpu.Process.Seconds() / 10); samples.all < least {
		t.Fatalf("%d samples, want at least %d", samples.all, least)
	}
	got := h.goroutines()
	least, most, deviation := samples.shares()
	h.sampled = fmt.Sprintf("%.3f to %.3f", least, most)
	t.Logf("%d samples, goroutines %s±%.3f; Loupe: %.3f", samples.all, h.sampled, deviation, got)
	if got < least-0.1-3*deviation || got > most+0.1+3*deviation {
		t.Errorf("goroutines used %.3f of the processor time, by samples of their stacks %s", got, h.sampled)
	}
	return h
}

// TestBooks observes busy programs. It compares their processor time with the kernel's accounts, and checks that the number of
// running goroutines never exceeds GOMAXPROCS. For public servers it also compares the goroutines' part of the processor time
// with the stacks that the kernel samples. It prints the results as a table.
func TestBooks(t *testing.T) {
	programs := programsOfOwn(testtarget.Latest())
	releases := testtarget.Rare(t, "1.12.17")
	if *booksAll {
		releases = testtarget.Versions()[:len(testtarget.Versions())-1]
	}
	for _, v := range releases {
		programs = append(programs, programsOfOwn(v)...)
	}
	servers := testtarget.Rare(t, "caddy", "nats-server") // they need perf
	for _, spec := range realtarget.Programs() {
		if slices.Contains(servers, spec.Name) || *booksAll {
			programs = append(programs, compared{name: spec.Name, run: func(t *testing.T, kinds event.Kinds) held { return holdServer(t, spec, kinds) }})
		}
	}
	var b booksTable
	observed := append(testtarget.Rare(t, event.KindsDefault), event.KindsDefault.Union(event.KindsSyscall))
	for _, p := range programs {
		for _, kinds := range observed {
			syscalls := kinds.Has(event.GoSyscallBegin)
			t.Run(strings.Trim(fmt.Sprintf("%s/%s/syscalls=%v", p.name, cmp.Or(p.release, "public"), syscalls), "/"), func(t *testing.T) {
				if p.lack != "" {
					t.Skip(p.lack)
				}
				h := p.run(t, kinds)
				h.check(t)
				b.add(p, syscalls, &h)
			})
		}
	}
	t.Log(b.String())
}

// booksTable collects what was compared.
type booksTable struct {
	text           bytes.Buffer
	runs, parts    []float64 // errors of processor time: of runs as parts of the kernel's, of parts of them as parts of one processor
	pictures, over int
}

func (b *booksTable) add(p compared, syscalls bool, h *held) {
	c, kernel := &h.cpu, h.middle()
	fmt.Fprintf(&b.text, "%s\t%s\t%v\t%.2f\t%.3f\t%.3f\t%.3f\t%s\t%d\t%d\t%d\t%d\n", p.name, p.release, syscalls, kernel/h.interval.Seconds(),
		c.Process.Seconds()/kernel, h.goroutines(), c.Runtime.Seconds()/max(c.Process.Seconds(), 1e-9), cmp.Or(h.sampled, "-"), c.Procs, h.pictures, len(h.over), h.lost)
	b.runs, b.parts = append(b.runs, math.Abs(c.Process.Seconds()/kernel-1)), append(b.parts, h.errors...)
	b.pictures, b.over = b.pictures+h.pictures, b.over+len(h.over)
}

func (b *booksTable) String() string {
	if len(b.runs) == 0 {
		return "nothing was compared"
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nengine %s\nprogram\tGo\tsyscalls\tCPUs\tprocess:utime+stime\tgoroutines:process\truntime:process\tgoroutines by samples\tGOMAXPROCS\tpictures\tof these over\tlost events\n%s", *engine, b.text.String())
	w.Flush()
	p99 := func(list []float64) float64 {
		slices.Sort(list)
		return 100 * list[min(len(list)*99/100, len(list)-1)]
	}
	fmt.Fprintf(&table, "p99 of the error of processor time: %.2f %% of the kernel's (%d runs)", p99(b.runs), len(b.runs))
	if len(b.parts) > 0 {
		fmt.Fprintf(&table, ", %.2f %% of a processor in parts of %v (%d parts)", p99(b.parts), partLength, len(b.parts))
	}
	fmt.Fprintf(&table, "\n%d of %d pictures with more running goroutines than GOMAXPROCS", b.over, b.pictures)
	return table.String()
}
