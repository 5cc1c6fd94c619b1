package loupe_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/sched"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
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
	total    sched.Totals

	pictures int
	over     []string // pictures with more running goroutines than GOMAXPROCS
	off      []int    // by how much the number of running goroutines differs from that of the Ps that run one, by picture
}

// hold observes a process for a while and takes pictures of it. work is called when it is observed.
func hold(t *testing.T, pid int, d time.Duration, opt loupe.Options, work ...func()) held {
	t.Helper()
	opt.Procs, opt.BufferBytes = *engine == string(loupe.EngineInline), 64<<20 // as loupe top
	if opt.Kinds == 0 {
		opt.Kinds = event.KindsDefault
	}
	s := attach(t, pid, opt)
	m := sched.New(sched.Options{Kinds: opt.Kinds})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range s.Events() {
			m.Apply(e)
		}
	}()
	for _, begin := range work {
		begin()
	}
	var h held
	account := func() loupe.Usage {
		u, err := s.Usage()
		if err != nil || u.Err != nil {
			t.Fatal(err, u.Err)
		}
		b := sched.Books{CPU: u.CPU, RSS: u.RSS, Procs: u.Procs, OnP: []sched.OnP{}}
		for _, th := range u.Threads {
			b.Threads = append(b.Threads, sched.ThreadBooks(th))
		}
		for g, p := range u.Running {
			id, _ := p.ID()
			b.OnP = append(b.OnP, sched.OnP{G: g, P: id})
		}
		m.Advance(time.Now().UnixNano())
		m.Account(b)
		return u
	}
	first := [2]time.Duration{processorTicks(t, pid)}
	account()
	first[1] = processorTicks(t, pid)
	began := time.Now()
	for time.Since(began) < d {
		time.Sleep(50 * time.Millisecond)
		before := m.Totals()
		u := account()
		after := m.Totals()
		h.pictures++
		if u.Procs < 1 || int(after.States.Running) > u.Procs || int(before.States.Running) > before.Processor.Procs {
			h.over = append(h.over, fmt.Sprintf("%d running before, %d after a look at %d Ps", before.States.Running, after.States.Running, u.Procs))
		}
		off := int(before.States.Running) - len(u.Running)
		h.off = append(h.off, max(off, -off))
	}
	h.interval = time.Since(began)
	last := [2]time.Duration{processorTicks(t, pid)}
	account()
	last[1] = processorTicks(t, pid)
	h.kernel, h.atMost = last[0]-first[1], last[1]-first[0]
	h.total = m.Totals()
	h.cpu = h.total.Processor
	s.Close()
	<-done
	if stats := s.Stats(); stats.Lost > 0 {
		t.Logf("%d events lost", stats.Lost)
	}
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
	c, kernel := &h.cpu, max(h.atMost+h.kernel, 1).Seconds()/2
	return fmt.Sprintf("kernel %.3f CPUs; Loupe's process %.3f of that, goroutines %.3f, runtime %.3f; run-queue wait %.2f CPUs; %d pictures, none over: %v; running off by p50 %d, p99 %d; %d threads, GOMAXPROCS %d",
		kernel/h.interval.Seconds(), c.Process.Seconds()/kernel, c.Goroutines.Seconds()/kernel, c.Runtime.Seconds()/kernel, c.RunQueue.Seconds()/h.interval.Seconds(), h.pictures, len(h.over) == 0,
		h.off[len(h.off)/2], h.off[len(h.off)*99/100], c.Threads, c.Procs)
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

// TestBooks compares what is told of programs that are at work with the kernel's accounts: processor time, and that never
// more goroutines run than there are Ps.
func TestBooks(t *testing.T) {
	specs := []testtarget.Spec{}
	for _, v := range testtarget.Versions() {
		if v != testtarget.Latest() && v != "1.12.17" && v != "1.26.11" && !*booksAll {
			continue
		}
		specs = append(specs, testtarget.Spec{Program: "churn", Go: v}, testtarget.Spec{Program: "mixer", Go: v, Cgo: true})
	}
	for _, spec := range specs {
		for _, kinds := range []event.Kinds{event.KindsDefault, event.KindsDefault | event.KindsSyscall} {
			t.Run(fmt.Sprintf("%s/syscalls=%v", spec, kinds.Has(event.GoSyscallBegin)), func(t *testing.T) {
				if lack := spec.Unsupported(); lack != "" {
					t.Skip(lack)
				}
				p := testtarget.Start(t, testtarget.Build(t, spec), "2")
				h := hold(t, p.PID(), *booksFor, loupe.Options{Kinds: kinds})
				h.check(t)
			})
		}
	}
}

// TestBooksBusy has goroutines compute: nearly all processor time is theirs.
func TestBooksBusy(t *testing.T) {
	for _, version := range []string{"1.12.17", testtarget.Latest()} {
		for _, kinds := range []event.Kinds{event.KindsDefault, event.KindsDefault | event.KindsSyscall} {
			t.Run(fmt.Sprintf("go%s/syscalls=%v", version, kinds.Has(event.GoSyscallBegin)), func(t *testing.T) {
				cmd := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "mill", Go: version}))
				cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
				p := testtarget.StartCmd(t, cmd)
				burnt := make(chan string)
				h := hold(t, p.PID(), *booksFor, loupe.Options{Kinds: kinds}, func() {
					go func() { burnt <- p.Command(fmt.Sprintf("burn %d", (*booksFor + time.Second).Milliseconds())) }()
				})
				<-burnt
				h.check(t)
				if got := h.cpu.Goroutines.Seconds() / h.cpu.Process.Seconds(); got < 0.9 {
					t.Errorf("goroutines that compute used %.3f of the processor time", got)
				}
			})
		}
	}
}

// TestBooksServers compares what is told of public servers under load with the kernel's accounts, and the part that is
// goroutines' with the programs' own CPU profiles.
func TestBooksServers(t *testing.T) {
	for _, spec := range realtarget.Programs() {
		if spec.Name != "caddy" && spec.Name != "nats-server" && !*booksAll {
			continue
		}
		for _, kinds := range []event.Kinds{event.KindsDefault, event.KindsDefault | event.KindsSyscall} {
			t.Run(fmt.Sprintf("%s/syscalls=%v", spec.Name, kinds.Has(event.GoSyscallBegin)), func(t *testing.T) {
				target := spec.Start(t)
				load := target.StartLoad()
				load.Await(t, 20)
				seconds := int(max(*booksFor, 2*time.Second).Seconds())
				var own *profile.Profile
				var err error
				var wait sync.WaitGroup
				wait.Go(func() { own, err = cpuProfile(target.Pprof(), seconds) })
				h := hold(t, target.PID(), time.Duration(seconds)*time.Second, loupe.Options{Kinds: kinds})
				wait.Wait()
				if _, wrong := load.Stop(); wrong != nil {
					t.Errorf("a wrong answer while observed: %v", wrong)
				}
				h.check(t)
				if err != nil {
					t.Fatal(err)
				}
				goroutines, all := ownTime(own)
				const few = 30
				want, got := float64(goroutines)/float64(max(all, 1)), h.cpu.Goroutines.Seconds()/h.cpu.Process.Seconds()
				deviation := math.Sqrt(max(want*(1-want), 0.1) / float64(max(all, 1))) // of the samples
				t.Logf("its own profile: %d samples, goroutines %.3f±%.3f; Loupe: %.3f", all, want, deviation, got)
				if off := math.Abs(got - want); all >= few && off > 0.1+3*deviation {
					t.Errorf("goroutines used %.3f of the processor time, by its own profile %.3f", got, want)
				}
			})
		}
	}
}

// cpuProfile gets a CPU profile from a program.
func cpuProfile(pprof string, seconds int) (*profile.Profile, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/profile?seconds=%d", pprof, seconds), nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return profile.ParseData(b)
}

// ownTime counts the samples of a CPU profile, and of them those of goroutines that are not the runtime's own.
func ownTime(p *profile.Profile) (goroutines, all int64) {
	for _, s := range p.Sample {
		all += s.Value[0]
		if len(s.Location) == 0 || len(s.Location[len(s.Location)-1].Line) == 0 {
			continue
		}
		lines := s.Location[len(s.Location)-1].Line
		root := lines[len(lines)-1].Function.Name
		if !strings.HasPrefix(root, "runtime.") || root == "runtime.main" {
			goroutines += s.Value[0]
		}
	}
	return goroutines, all
}
