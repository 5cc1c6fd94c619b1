package loupe_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func startMill(t *testing.T, goVersion string) *testtarget.Process {
	t.Helper()
	return testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill", Go: goVersion}))
}

// attach attaches and ends the session with the test.
func attach(t *testing.T, pid int, opt loupe.Options) *loupe.Session {
	t.Helper()
	s, err := attachTo(context.Background(), loupe.PID(pid), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// during observes a target while it carries out commands, and until the goroutines that it starts for them have ended.
func during(t *testing.T, p *testtarget.Process, opt loupe.Options, commands ...string) *checker {
	t.Helper()
	before := numGoroutine(t, p)
	s := attach(t, p.PID(), opt)
	for _, w := range s.Warnings() {
		t.Log(w)
	}
	c, done := newChecker(), make(chan struct{})
	go func() {
		defer close(done)
		for ev := range s.Events() {
			c.add(ev)
		}
	}()
	for _, line := range commands {
		p.Command(line)
	}
	for deadline := time.Now().Add(time.Minute); numGoroutine(t, p) > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there were %d goroutines, and are more", before)
		}
	}
	s.Detach() // not Close, which discards events if the loop over them has not begun
	<-done
	s.Close()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	c.stats = s.Stats()
	return c
}

// numGoroutine returns what runtime.NumGoroutine returns in a target.
func numGoroutine(t *testing.T, p *testtarget.Process) int {
	t.Helper()
	n, err := strconv.Atoi(p.Command("num"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCounts has targets do a known amount of work and counts what is seen of it.
func TestCounts(t *testing.T) {
	for _, version := range testtarget.Versions() {
		t.Run("go"+version, func(t *testing.T) {
			p := startMill(t, version)
			opt := loupe.Options{Kinds: event.KindsAll}
			c := during(t, p, opt, "spawn 1000", "pingpong 2000", "chans 300", "locks 20")
			c.expectSound(t)
			c.expect(t, event.GoCreate, 1000+1+20, 50)
			c.expect(t, event.GoDestroy, 1000+1+20, 50)
			c.expect(t, event.ChanMake, 2+1+300+20, 5)
			c.expect(t, event.ChanClose, 301, 2)
			c.expect(t, event.Select, 300, 5)
			c.expect(t, event.ChanSend, 2*2000+2*300+20, 10)
			// A goroutine that loses the race finds the lock taken before it waits.
			c.expectAtLeast(t, event.SemAcquire, 20)
			c.expectAtLeast(t, event.SemRelease, 20)
			c.expectAtLeast(t, event.GoBlock, 2000)
			if begins, ends := c.kinds[event.GoSyscallBegin], c.kinds[event.GoSyscallEnd]; begins == 0 || ends < begins-5 || ends > begins+5 {
				t.Errorf("%d system calls begin, %d end", begins, ends)
			}
		})
	}
}

// TestChannelsMade compares the channels that a program makes, and their sizes, with those that it closes.
func TestChannelsMade(t *testing.T) {
	for _, version := range testtarget.Versions() {
		t.Run("go"+version, func(t *testing.T) {
			p, first := startMill(t, version), make(chan struct{})
			began := sync.OnceFunc(func() { close(first) })
			events, _, _ := observeEach(t, p.PID(), truthOptions(event.KindsChannel), began, func() {
				p.Command("chans 300")
				<-first
			})
			made, closed := map[uint64]int64{}, 0
			for _, e := range events {
				switch e.Kind {
				case event.ChanMake:
					made[e.Object] = e.Value
				case event.ChanClose:
					if size, ok := made[e.Object]; !ok || size != 7 {
						t.Fatalf("channel %#x with room for 7 is closed: it was made %v with room for %d", e.Object, ok, size)
					}
					delete(made, e.Object)
					closed++
				}
			}
			if closed < 300 {
				t.Errorf("%d channels are closed, %d events", closed, len(events))
			}
		})
	}
}

// expect checks how often a kind was seen: at least n times, and not many more for what the runtime does by itself.
func (c *checker) expect(t *testing.T, kind event.Kind, n, more int) {
	t.Helper()
	if got := c.kinds[kind]; got < n || got > n+more {
		t.Errorf("%d times %v, want %d to %d", got, kind, n, n+more)
	}
}

func (c *checker) expectAtLeast(t *testing.T, kind event.Kind, n int) {
	t.Helper()
	if got := c.kinds[kind]; got < n {
		t.Errorf("%d times %v, want at least %d", got, kind, n)
	}
}

// TestSingleUprobes attaches as on kernels without uprobe_multi.
func TestSingleUprobes(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	c := during(t, p, loupe.Options{}.WithSingleUprobes(), "spawn 1000")
	c.expectSound(t)
	c.expect(t, event.GoCreate, 1000, 50)
}

func TestThousandThreads(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	p.Command("threads 1000")
	c := during(t, p, loupe.Options{}, "spawn 1000", "threads 0")
	c.expectSound(t)
	c.expectAtLeast(t, event.GoDestroy, 2000)
}

// TestSlowConsumer lets the buffer overflow: what was produced is what was received and what was lost, exactly, and the
// stream says where it has gaps.
func TestSlowConsumer(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	s := attach(t, p.PID(), loupe.Options{BufferBytes: 64 << 10})
	p.Command("spawn 20000") // nobody reads
	var lost int64
	var release atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev := range s.Events() {
			if ev.Kind == event.Lost {
				lost += ev.Value
			}
			if !release.Load() {
				time.Sleep(10 * time.Microsecond)
			}
		}
	}()
	p.Command("spawn 20000")
	release.Store(true)
	s.Detach()
	<-done
	s.Close()
	stats := s.Stats()
	if stats.Lost == 0 {
		t.Error("a buffer of 64 KiB that nobody reads lost nothing")
	}
	if uint64(lost) != stats.Lost {
		t.Errorf("the stream told of %d lost events, there were %d", lost, stats.Lost)
	}
	produced, received := uint64(0), uint64(0)
	for kind, n := range stats.Kinds {
		if n.Produced != n.Received+n.Lost {
			t.Errorf("%v: %+v does not add up", kind, n)
		}
		produced += n.Produced
		received += n.Received
	}
	if produced != received+stats.Lost {
		t.Errorf("%d produced, %d received, %d lost", produced, received, stats.Lost)
	}
	if created := stats.Kinds[event.GoCreate].Produced; created < 40000 || created > 40100 {
		t.Errorf("%d creations produced, want 40000", created)
	}
}

// TestLossThenQuiet lets the buffer overflow in a program that then does nothing. The stream says so without another event.
func TestLossThenQuiet(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	s := attach(t, p.PID(), loupe.Options{BufferBytes: 64 << 10})
	p.Command("spawn 20000") // nobody reads
	closing := time.AfterFunc(20*time.Second, func() { s.Close() })
	var told uint64
	for ev := range s.Events() {
		if ev.Kind == event.Lost {
			if told += uint64(ev.Value); told == s.Stats().Lost {
				break
			}
		}
	}
	if !closing.Stop() || told == 0 {
		t.Errorf("the stream told of %d lost events, there were %d", told, s.Stats().Lost)
	}
}

// TestBlockedConsumer ends the context while the consumer of Events is blocked: the probes are removed at once, and what is
// in the buffer is yielded later.
func TestBlockedConsumer(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "churn"}))
	before := textOf(t, target.PID())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := attachTo(ctx, loupe.PID(target.PID()), loupe.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	deadline := time.Now().Add(time.Minute)
	n := 0
	for range s.Events() {
		if n++; n != 1 {
			continue
		}
		if textOf(t, target.PID()) == before {
			t.Error("no probe is there")
		}
		time.Sleep(100 * time.Millisecond) // for the buffer
		cancel()
		for textOf(t, target.PID()) != before {
			if time.Now().After(deadline) {
				t.Fatal("the probes stay")
			}
			time.Sleep(time.Millisecond)
		}
	}
	if err := s.Err(); err != nil || n < 100 {
		t.Errorf("%d events, %v", n, err)
	}
	if err := s.Detach(); err != nil {
		t.Error(err)
	}
	stats := s.Stats()
	for kind, c := range stats.Kinds {
		if c.Produced != c.Received+c.Lost {
			t.Errorf("%v: %+v", kind, c)
		}
	}
}

func TestTargetDies(t *testing.T) {
	t.Run("while observed", func(t *testing.T) {
		p := startMill(t, testtarget.Latest())
		s := attach(t, p.PID(), loupe.Options{})
		time.AfterFunc(50*time.Millisecond, p.Kill)
		for range s.Events() {
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
	t.Run("while attaching", func(t *testing.T) {
		for delay := range 12 {
			p := startMill(t, testtarget.Latest())
			time.AfterFunc(time.Duration(delay)*10*time.Millisecond, p.Kill)
			s, err := attachTo(context.Background(), loupe.PID(p.PID()), loupe.Options{})
			if err != nil {
				ending := strings.Contains(err.Error(), "an exiting process") // dead before its executable was opened
				if !errors.Is(err, loupe.ErrExited) && !errors.Is(err, loupe.ErrNoProcess) && !ending || strings.Contains(err.Error(), "\n") {
					t.Errorf("after %d ms: %v", delay*10, err)
				}
				continue
			}
			for range s.Events() {
			}
			s.Close()
		}
	})
}

// slowTrue returns a directory with a program true that ends with its standard input: engine inline has to look for it.
func slowTrue(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "true"), []byte("#!/bin/sh\nexec /bin/cat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestExec has the target replace itself, by itself and by a program that is not Go.
func TestExec(t *testing.T) {
	for _, command := range []string{"exec", "execother"} {
		t.Run(command, func(t *testing.T) {
			path := testtarget.Build(t, testtarget.Spec{Program: "mill", PIE: true})
			cmd := testcmd.Command(t, path)
			cmd.Env = append(os.Environ(), "PATH="+slowTrue(t))
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out := &lines{}
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer in.Close()
			out.await(t, "ready", 1)
			s := attach(t, cmd.Process.Pid, loupe.Options{})
			if _, err := in.Write([]byte(command + "\n")); err != nil {
				t.Fatal(err)
			}
			var last event.Kind
			for ev := range s.Events() {
				last = ev.Kind
			}
			if last != event.Exec || !errors.Is(s.Err(), loupe.ErrExec) {
				t.Errorf("the last event is %v, the error %v", last, s.Err())
			}
			if command == "exec" { // the new program is unharmed
				out.await(t, "ready", 2)
				if _, err := in.Write([]byte("spawn 1000\n")); err != nil {
					t.Fatal(err)
				}
				out.await(t, "spawn 1000", 1)
			}
		})
	}
}

// TestFork observes a program that starts one child after the other: they share its memory for a moment, and what they do
// is not its business.
func TestFork(t *testing.T) {
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "forker"}))
	c := observe(t, p.PID(), time.Second, loupe.Options{Kinds: event.KindsDefault.Union(event.KindsSyscall)})
	c.expectSound(t)
	c.expectAtLeast(t, event.GoSyscallBegin, 10)
}

// TestManyGoroutines attaches to a program with a hundred thousand goroutines, with RELEASES=all to one with a million.
func TestManyGoroutines(t *testing.T) {
	n := 100_000
	if testtarget.Complete() {
		n = 1_000_000
	}
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "flood"}), strconv.Itoa(n), "0")
	c := observe(t, p.PID(), 100*time.Millisecond, loupe.Options{BufferBytes: 256 << 20})
	if len(c.wrong) > 0 {
		t.Errorf("the stream cannot be:\n%s", strings.Join(c.wrong, "\n"))
	}
	if c.kinds[event.GoStatus] < n {
		t.Errorf("%d goroutines at the beginning, want %d", c.kinds[event.GoStatus], n)
	}
	c.expectAddsUp(t)
}

// TestKill kills the observer: nothing of it stays in the target.
func TestKill(t *testing.T) {
	if pid := os.Getenv("LOUPE_TEST_OBSERVE"); pid != "" {
		n, _ := strconv.Atoi(pid)
		s, err := attachTo(context.Background(), loupe.PID(n), loupe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range s.Events() {
		}
		return
	}
	p := startMill(t, testtarget.Latest())
	before := breakpoints(t, p)
	observer := testcmd.Command(t, os.Args[0], "-test.run=^TestKill$")
	observer.Env = append(os.Environ(), "LOUPE_TEST_OBSERVE="+strconv.Itoa(p.PID()))
	if err := observer.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for breakpoints(t, p) == before {
		if time.Now().After(deadline) {
			t.Fatal("the observer has not attached")
		}
		time.Sleep(5 * time.Millisecond)
	}
	observer.Process.Kill()
	observer.Wait()
	for breakpoints(t, p) != before {
		if time.Now().After(deadline) {
			t.Fatal("probes are still in the target")
		}
		time.Sleep(5 * time.Millisecond)
	}
	p.Command("spawn 1000")
}

// breakpoints returns the bytes of runtime.gopark in the target, where a probe would be.
func breakpoints(t *testing.T, p *testtarget.Process) string {
	t.Helper()
	return codeOf(t, p, "runtime.gopark")
}

// TestAlive asks which goroutines are alive.
func TestAlive(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	s := attach(t, p.PID(), loupe.Options{System: true})
	before, err := s.Alive()
	if err != nil {
		t.Fatal(err)
	}
	p.Command("threads 100")
	during, err := s.Alive()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(during) - len(before); n < 100 || n > 110 {
		t.Errorf("%d more goroutines, want 100", n)
	}
}

// TestGoroutineFilter observes some goroutines only, with small IDs and with large ones.
func TestGoroutineFilter(t *testing.T) {
	p := startMill(t, testtarget.Latest())
	p.Command("spawn 10000") // uses up the small IDs
	p.Command("threads 20")
	var some []uint64
	for _, g := range p.Goroutines() {
		if g.ID == 1 || len(some) < 5 && g.ID > 5000 {
			some = append(some, g.ID)
		}
	}
	c := during(t, p, loupe.Options{Goroutines: some, Kinds: event.KindsDefault.Union(event.KindsSyscall)}, "spawn 100", "sleep 100")
	c.expectSound(t)
	if len(some) != 5 || len(c.states) != len(some) {
		t.Errorf("asked for %v, observed %v", some, c.states)
	}
	for _, g := range some {
		if !strings.Contains(c.last[g], "GoStart") && !strings.Contains(c.last[g], "GoSyscall") {
			t.Errorf("goroutine %d: %q", g, c.last[g])
		}
	}
}

// TestMinBlock observes long waits only.
func TestMinBlock(t *testing.T) {
	for _, version := range testtarget.Among(t, "1.14.15", "1.22.12", testtarget.Latest()) {
		t.Run("go"+version, func(t *testing.T) {
			p := startMill(t, version)
			c := during(t, p, loupe.Options{MinBlock: 50 * time.Millisecond}, "pingpong 1000", "sleep 60", "sleep 60", "locks 5")
			for _, wait := range c.waits {
				if wait < 50*time.Millisecond {
					t.Errorf("a wait of %v is reported", wait)
				}
			}
			if c.kinds[event.GoBlock] < 2 || c.kinds[event.GoBlock] > 30 || c.kinds[event.GoStart] > 0 {
				t.Errorf("%v: want the two sleeps and little more", c.kinds)
			}
			c.expectAddsUp(t)
		})
	}
}
