package testtarget

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// zooRest says where goroutines of the zoo rest: in the topmost function of the
// program's own that is named, in a state. Where older releases have another
// name for it, that is was, and since is the minor release that changed it.
var zooRest = []struct {
	function, state, was string
	since                int
}{
	{function: "main.chanReceive", state: "chan receive"},
	{function: "main.chanSend", state: "chan send"},
	{function: "main.chanReceiveNil", state: "chan receive (nil chan)"},
	{function: "main.chanSendNil", state: "chan send (nil chan)"},
	{function: "main.selectMany", state: "select"},
	{function: "main.selectNone", state: "select (no cases)"},
	{function: "main.sleeper", state: "sleep"},
	{function: "main.lockedSleeper", state: "sleep"},
	{function: "main.ticker", state: "chan receive"},
	{function: "main.mutexLock", state: "sync.Mutex.Lock", was: "semacquire", since: 20},
	{function: "main.rwMutexLock", state: "sync.RWMutex.Lock", was: "semacquire", since: 20},
	{function: "main.rwMutexRLock", state: "sync.RWMutex.RLock", was: "semacquire", since: 20},
	{function: "main.waitGroupWait", state: "sync.WaitGroup.Wait", was: "semacquire", since: 24},
	{function: "main.condWait", state: "sync.Cond.Wait"},
	{function: "main.tcpAccept", state: "IO wait"},
	{function: "main.tcpRead", state: "IO wait"},
	{function: "main.pipeRead", state: "IO wait"},
	{function: "main.blockingRead", state: "syscall"},
	{function: "main.dumper", state: "running"},
	{function: "main.serve", state: "syscall"},
}

// TestZoo checks that the zoo rests as it promises and speaks the protocol.
func TestZoo(t *testing.T) {
	for _, v := range endReleases(t) {
		spec := Spec{Program: "zoo", Go: v}
		t.Run(spec.String(), func(t *testing.T) {
			p := Start(t, Build(t, spec))
			if got := p.Command("version"); got != "go"+v {
				t.Errorf("it says to be of %s, want go%s", got, v)
			}
			all := p.Goroutines()
			if got := p.Command("num"); got != fmt.Sprint(len(all)) {
				t.Errorf("%s goroutines, %d in the dump", got, len(all))
			}
			states := make(map[string][]string)
			for _, g := range all {
				for _, f := range g.Frames {
					states[f.Func] = append(states[f.Func], g.State)
				}
			}
			for _, rest := range zooRest {
				want := rest.state
				if spec.minor() < rest.since {
					want = rest.was
				}
				if got := states[rest.function]; len(got) != 1 || got[0] != want {
					t.Errorf("in %s are goroutines in the states %q, want one in %q", rest.function, got, want)
				}
			}
			for _, function := range []string{
				"panic", "runtime.Goexit", "reflect.Value.call", "main.inlineMiddle",
				"loupe.test/zoo/cage%2ev2.hinge", "loupe.test/zoo/asmcall.Through", "main.größe",
			} {
				if len(states[function]) == 0 {
					t.Errorf("no goroutine is in %s", function)
				}
			}
			var begin, end int64
			before := time.Now().UnixNano()
			answer := p.Command("gc")
			if _, err := fmt.Sscanf(answer, "gc %d %d", &begin, &end); err != nil || begin < before || end < begin {
				t.Errorf("answer to gc: %q (%v)", answer, err)
			}
			if first, second := rested(all), rested(p.Goroutines()); first != second {
				t.Errorf("the zoo moved:\n%s\nthen:\n%s", first, second)
			}
		})
	}
}

// rested returns a text that is the same as long as no goroutine moves, but for
// the one that takes the dump.
func rested(all []Goroutine) string {
	var text strings.Builder
	for _, g := range all {
		if g.State != "running" {
			fmt.Fprintf(&text, "%d [%s] %v\n", g.ID, g.State, g.Frames)
		}
	}
	return text.String()
}

// TestZooCgo checks the goroutines that rest in and behind C code.
func TestZooCgo(t *testing.T) {
	for _, v := range endReleases(t) {
		spec := Spec{Program: "zoo", Go: v, Cgo: true}
		t.Run(spec.String(), func(t *testing.T) {
			found := make(map[string]bool)
			for _, g := range Start(t, Build(t, spec)).Goroutines() {
				for _, f := range g.Frames {
					switch {
					case f.Func == "main.cgoRead" && g.State == "syscall":
						found["a goroutine in C"] = true
					case f.Func == "main.cgoCallback" && g.State == "chan receive" && g.Locked:
						found["a callback"] = true
					case f.Func == "main.zooThreadCallback" && g.CreatedBy.Func == "":
						found["a thread of C"] = true
					}
				}
			}
			if len(found) != 3 {
				t.Errorf("found only %v", found)
			}
		})
	}
}

// TestZooFinalizer has the finalizer goroutine be a user's.
func TestZooFinalizer(t *testing.T) {
	path := Build(t, Spec{Program: "zoo"})
	for _, blocked := range []bool{false, true} {
		var args []string
		if blocked {
			args = append(args, "blocked-finalizer")
		}
		shown := strings.Contains(Start(t, path, args...).Stacks(), "\nmain.finalizer(")
		if shown != blocked {
			t.Errorf("with the arguments %q the finalizer is shown: %v", args, shown)
		}
	}
}

// TestZooLeaks has the newest runtime mark leaked goroutines.
func TestZooLeaks(t *testing.T) {
	p := Start(t, Build(t, Spec{Program: "zoo"}))
	count := p.Command("leaks")
	marked := 0
	for _, g := range p.Goroutines() {
		for _, extra := range g.Extra {
			if extra == "leaked" {
				marked++
			}
		}
	}
	if want := fmt.Sprintf("leaks %d", marked); marked == 0 || count != want {
		t.Errorf("the answer is %q with %d goroutines marked", count, marked)
	}
}

// anywhere has the states that a goroutine can be in at any place of its code.
// The last ones are those of an allocation that meets the collector; until Go
// 1.13 time.Sleep allocates.
var anywhere = []string{"runnable", "running", "preempted", "semacquire", "GC assist wait", "GC assist marking"}

// TestCoder holds the code words against stacks that cannot be torn: those that
// the runtime takes itself, with the world stopped.
func TestCoder(t *testing.T) {
	for _, v := range endReleases(t) {
		spec := Spec{Program: "coder", Go: v}
		t.Run(spec.String(), func(t *testing.T) {
			p := Start(t, Build(t, spec), "14")
			values := make(map[uint]bool)
			reasons := make(map[string]bool)
			for n := 0; n < 20 || (len(values) < 10 || !reasons["sleep"]) && n < 2000; n++ {
				for _, g := range p.Goroutines() {
					var funcs []string
					for _, f := range g.Frames {
						funcs = append(funcs, f.Func)
					}
					value, ok, applies := CheckCodeWord(funcs)
					if !applies {
						continue
					}
					if !ok {
						t.Fatalf("no word is spelled by %q", funcs)
					}
					values[value] = true
					if want := CodeWordReason(funcs); g.State != want && !slices.Contains(anywhere, g.State) {
						t.Errorf("a goroutine waits for %q, want %q: %q", g.State, want, funcs)
					}
					reasons[g.State] = true
				}
			}
			if len(values) < 10 || !reasons["sleep"] {
				t.Errorf("only %d words were seen, in the states %v", len(values), reasons)
			}
			if total := ops(t, p); total == 0 {
				t.Error("no word was spoken")
			}
		})
	}
}

// ops returns the count of a target's answer to `ops`.
func ops(t *testing.T, p *Process) uint64 {
	t.Helper()
	var total uint64
	var nanos int64
	answer := p.Command("ops")
	if _, err := fmt.Sscanf(answer, "ops %d %d", &total, &nanos); err != nil || nanos <= 0 {
		t.Fatalf("answer to ops: %q (%v)", answer, err)
	}
	return total
}

// eventually waits until a target has got somewhere.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(answerTime); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: not yet %s", answerTime, what)
		}
	}
}

func TestFlood(t *testing.T) {
	for _, v := range endReleases(t) {
		spec := Spec{Program: "flood", Go: v}
		t.Run(spec.String(), func(t *testing.T) {
			p := Start(t, Build(t, spec), "1000", "2")
			states := make(map[string]int)
			for _, g := range p.Goroutines() {
				for _, f := range g.Frames {
					if f.Func == "main.(*lot).descend" {
						states[g.State]++
						break
					}
				}
			}
			locked := "sync.Mutex.Lock"
			if spec.minor() < 20 {
				locked = "semacquire"
			}
			for _, state := range []string{"chan receive", "select", "sleep", locked} {
				if states[state] != 250 {
					t.Errorf("%d goroutines in the state %q, want 250 (%v)", states[state], state, states)
				}
			}
			before := ops(t, p)
			eventually(t, "any work done", func() bool { return ops(t, p) > before })
		})
	}
}

func TestChurn(t *testing.T) {
	for _, v := range endReleases(t) {
		spec := Spec{Program: "churn", Go: v}
		t.Run(spec.String(), func(t *testing.T) {
			p := Start(t, Build(t, spec), "2")
			eventually(t, "2,000 goroutines ended", func() bool { return ops(t, p) > 2000 })
			var ended, nanos int64
			answer := p.Command("sum")
			if _, err := fmt.Sscanf(answer, "sum ok %d %d", &ended, &nanos); err != nil || ended <= 2000 {
				t.Errorf("answer to sum: %q (%v)", answer, err)
			}
		})
	}
}

// TestMixer lets every kind of work be done, in every shape that a mixer has, and then none.
func TestMixer(t *testing.T) {
	for _, v := range endReleases(t) {
		for _, spec := range append([]Spec{{}, {Cgo: true}, {Library: true}}, Rare(t, Spec{Archive: true}, Spec{Plugin: true})...) {
			spec.Program, spec.Go = "mixer", v
			t.Run(spec.String(), func(t *testing.T) {
				p := Start(t, Build(t, spec))
				want := 13
				if !spec.withDefaults().Cgo || spec.minor() >= 18 {
					want++ // threads
				}
				if spec.minor() >= 14 {
					want++ // spins
				}
				if spec.withDefaults().Cgo {
					want += 4
				}
				if spec.Plugin {
					want++
					if answer := p.Command("load"); answer != "loaded" {
						t.Fatal(answer)
					}
				}
				eventually(t, "all work done once", func() bool {
					answer := p.Command("sum")
					if !strings.HasPrefix(answer, "sum ok ") {
						t.Fatal(answer)
					}
					return strings.Count(answer, "=") == want && !strings.Contains(answer+" ", "=0 ")
				})
				if answer := p.Command("rest"); answer != "rests" {
					t.Fatal(answer)
				}
				collections := regexp.MustCompile(" collections=[0-9]+")
				before := collections.ReplaceAllString(p.Command("sum"), "")
				time.Sleep(50 * time.Millisecond)
				if after := collections.ReplaceAllString(p.Command("sum"), ""); after != before {
					t.Errorf("at rest it did %s, and then %s", before, after)
				}
				if answer := p.Command("work"); answer != "works" {
					t.Fatal(answer)
				}
				eventually(t, "any work done again", func() bool {
					return collections.ReplaceAllString(p.Command("sum"), "") != before
				})
			})
		}
	}
}

// A recorder is a test that keeps its failures to itself.
type recorder struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record runs a test with a recorder to its end and returns the failures.
func record(t *testing.T, test func(tb testing.TB)) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		test(r)
	}()
	<-done
	return r.failures
}

// TestProcessEnds checks that a target's end is noticed, and called a failure
// when it is one.
func TestProcessEnds(t *testing.T) {
	path := Build(t, Spec{Program: "tiny"})
	for _, test := range []struct {
		name string
		run  func(p *Process)
		want string // in the failures; none if empty
	}{
		{"by itself", func(p *Process) {}, ""},
		{"stopped twice", func(p *Process) { p.Stop(); p.Stop() }, ""},
		{"killed", func(p *Process) { p.Kill() }, ""},
		{"asked to quit", func(p *Process) { p.send("quit"); <-p.ended }, ""},
		{"crashed", func(p *Process) { syscall.Kill(p.PID(), syscall.SIGQUIT); <-p.ended }, "SIGQUIT: quit"},
		{"crashed before an answer", func(p *Process) {
			syscall.Kill(p.PID(), syscall.SIGQUIT)
			<-p.ended
			p.Command("num")
		}, "exit status 2"},
		{"wrong command", func(p *Process) { p.Command("dance") }, "unknown command dance"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p *Process
			failures := record(t, func(tb testing.TB) {
				p = Start(tb, path)
				if !p.Running() {
					tb.Errorf("it does not run")
				}
				test.run(p)
			})
			all := strings.Join(failures, "\n")
			if (all == "") != (test.want == "") || !strings.Contains(all, test.want) {
				t.Errorf("failures: %q, want %q", all, test.want)
			}
			if p.Running() {
				t.Error("it still runs")
			}
			if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
				t.Errorf("process %d is left: %v", p.PID(), err)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	silent := t.TempDir() + "/silent"
	if err := os.WriteFile(silent, []byte("#!/bin/sh\necho good morning\ncat\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/no/such/program": "no such file",
		silent:             `said "good morning" instead of ready`,
	} {
		failures := record(t, func(tb testing.TB) { Start(tb, path) })
		if len(failures) != 1 || !strings.Contains(failures[0], want) {
			t.Errorf("starting %s: %q, want %q", path, failures, want)
		}
	}
}
