package tracetruth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// A Script is what the selftrace program says it did when it ran its script.
type Script struct {
	Main   uint64        // the goroutine that ran the script
	Rounds int           // how often each worker did what its phase is about
	Phases []ScriptPhase // in order
}

// A ScriptPhase is a part of the script: what each of its workers did, exactly.
type ScriptPhase struct {
	Name      string
	Wait      string   // the wait reason of a traceback; empty when workers did not wait
	Scheduler bool     // the scheduler woke the workers; else Main did
	Blocks    int      // waits of each worker
	Yields    int      // calls of runtime.Gosched
	Creates   int      // goroutines that each worker made
	Workers   []uint64 // the workers' IDs
}

// Functions of the program that its goroutines start with.
const (
	scriptWorker = "main.(*scriptPhase).runAll.func1"
	scriptChild  = "main.scriptChild"
)

// ParseScript reads the program's answer to the command script.
func ParseScript(answer string) (*Script, error) {
	text, ok := strings.CutPrefix(answer, "scripted ")
	if !ok {
		return nil, fmt.Errorf("%q is not what a script answers", answer)
	}
	s := new(Script)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("read the result of a script: %w", err)
	}
	return s, nil
}

// minorNoTimerproc is the first release whose timers are run by the scheduler. Before, a goroutine of the runtime did.
const minorNoTimerproc = 14

// Check holds events against the script, which a program of the given minor release ran while they were observed. It
// returns what is wrong, one line each.
func (s *Script) Check(events []event.Event, release int) []string {
	c := scriptCheck{script: s, release: release, deeds: make(map[uint64]*deeds)}
	canon := canonicalEvents(events, release, event.Kinds{}, make(RuleCounts))
	if canon.lost > 0 {
		return []string{fmt.Sprintf("%d events were lost", canon.lost)}
	}
	workers := 0
	for i := range canon.records {
		c.add(&canon.records[i])
		if r := &canon.records[i]; r.Kind == event.GoCreate && r.Start == scriptWorker {
			workers++
		}
	}
	want := 0
	for i := range s.Phases {
		p := &s.Phases[i]
		want += len(p.Workers)
		for _, g := range p.Workers {
			c.checkWorker(p, g)
		}
	}
	if workers != want {
		c.report("%d workers were created, not %d", workers, want)
	}
	return c.wrong
}

// deeds are what one goroutine did and what was done to it.
type deeds struct {
	steps    []*Record
	children []*Record // that it created
}

type scriptCheck struct {
	script  *Script
	release int
	deeds   map[uint64]*deeds
	wrong   []string
}

func (c *scriptCheck) report(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

func (c *scriptCheck) of(g uint64) *deeds {
	if c.deeds[g] == nil {
		c.deeds[g] = new(deeds)
	}
	return c.deeds[g]
}

func (c *scriptCheck) add(r *Record) {
	d := c.of(r.G)
	d.steps = append(d.steps, r)
	// Before Go 1.14 the first sleep on a processor starts a goroutine of the runtime.
	if r.Kind == event.GoCreate && r.By != 0 && r.Start != "runtime.timerproc" {
		by := c.of(r.By)
		by.children = append(by.children, r)
	}
}

// follows says what can come after what in the life of a goroutine. It starts twice when it comes back from a system call
// without a P.
var follows = map[event.Kind][]event.Kind{
	event.GoCreate:  {event.GoStart},
	event.GoStart:   {event.GoStart, event.GoStop, event.GoBlock, event.GoDestroy},
	event.GoStop:    {event.GoStart},
	event.GoBlock:   {event.GoUnblock},
	event.GoUnblock: {event.GoStart},
}

// checkWorker checks one worker of a phase.
func (c *scriptCheck) checkWorker(p *ScriptPhase, g uint64) {
	wrong := func(format string, args ...any) {
		c.report("%s, worker %d: %s", p.Name, g, fmt.Sprintf(format, args...))
	}
	d := c.of(g)
	count := make(map[event.Kind]int)
	yields, restarts := 0, 0
	for i, r := range d.steps {
		count[r.Kind]++
		if i > 0 && !slices.Contains(follows[d.steps[i-1].Kind], r.Kind) {
			wrong("%v comes after %v", r, d.steps[i-1])
		}
		switch r.Kind {
		case event.GoStart:
			if i > 0 && d.steps[i-1].Kind == event.GoStart {
				restarts++
			}
		case event.GoCreate:
			if r.By != c.script.Main || r.Start != scriptWorker {
				wrong("%v, not %s by g%d", r, scriptWorker, c.script.Main)
			}
		case event.GoBlock:
			if r.Reason != p.Wait {
				wrong("%v, not for %q", r, p.Wait)
			}
		case event.GoUnblock:
			if !c.mayWake(p, r.By) {
				wrong("%v", r)
			}
		case event.GoStop:
			if r.TraceReason == event.StopGosched {
				yields++
			}
		}
	}
	if n := len(d.steps); n == 0 || d.steps[0].Kind != event.GoCreate || d.steps[n-1].Kind != event.GoDestroy {
		wrong("its %d events do not go from GoCreate to GoDestroy", n)
	}
	for _, number := range []struct {
		what      string
		got, want int
	}{
		{"waits", count[event.GoBlock], p.Blocks},
		{"wakes", count[event.GoUnblock], p.Blocks},
		{"calls of Gosched", yields, p.Yields},
		{"starts", count[event.GoStart], 1 + p.Blocks + count[event.GoStop] + restarts},
		{"creations", count[event.GoCreate], 1},
		{"ends", count[event.GoDestroy], 1},
		{"children", len(d.children), p.Creates},
	} {
		if number.got != number.want {
			wrong("%d %s, not %d", number.got, number.what, number.want)
		}
	}
	for _, child := range d.children {
		if child.Start != scriptChild {
			wrong("it created %v, not %s", child, scriptChild)
		}
	}
}

// mayWake reports whether a goroutine may have woken a worker. What the scheduler wakes may be woken on the thread of the
// goroutine that runs the script, while that starts the world again.
func (c *scriptCheck) mayWake(p *ScriptPhase, by uint64) bool {
	if !p.Scheduler {
		return by == c.script.Main
	}
	return by == 0 || by == c.script.Main || c.release < minorNoTimerproc
}
