package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/bench/internal/wrk"
)

// way is one way to see the events of a target.
type way struct {
	name  string
	watch func(b *bench, t *target, cpu int) (watcher, error) // begins, on one processor or anywhere
}

// chosen returns those of some ways that the user wants to see.
func (b *bench) chosen(ways []way) []way {
	return slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return b.ways != nil && !b.ways.MatchString(w.name) })
}

// watcher sees events of a target until it is closed. begin and end are the ends of the time that is measured.
type watcher interface {
	begin() error
	end() (seen, error)
	close() error
}

// seen is what a watcher has seen from begin to end. Only Loupe's says more than the number of events.
type seen struct {
	events, lost uint64 // events that happened, and how many of them were lost
	yielded      uint64
	cpu, took    time.Duration
	inProbes     time.Duration // of the target, as Loupe estimates it
	peak, buffer int64
	latency      latency
}

func (s seen) rate() float64       { return float64(s.events) / s.took.Seconds() } // events a second
func (s seen) processors() float64 { return s.cpu.Seconds() / s.took.Seconds() }   // used by the watcher
func (s seen) lostPart() float64   { return float64(s.lost) / float64(s.events) }

// nobody watches: what the runtime's tracer costs is seen in the target alone.
type nobody struct{}

func (nobody) begin() error       { return nil }
func (nobody) end() (seen, error) { return seen{}, nil }

// loupeWatcher is an observer.
type loupeWatcher struct {
	p     *program.Program
	first count
}

// loupeWay observes by Loupe.
func loupeWay(name string, o order) way {
	return way{name, func(b *bench, t *target, cpu int) (watcher, error) { return b.startObserver(t, cpu, o) }}
}

// startObserver starts an observer and waits until it is attached.
func (b *bench) startObserver(t *target, cpu int, o order) (*loupeWatcher, error) {
	o.PID = t.PID()
	if b.profiles != "" {
		b.observers++
		o.Profile = filepath.Join(b.profiles, fmt.Sprintf("observer-%d.pprof", b.observers))
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p, err := startProgram(cpu, nil, b.self, "-observe", string(text))
	if err != nil {
		return nil, err
	}
	if _, err := p.Line(); err != nil {
		p.Kill()
		return nil, err
	}
	return &loupeWatcher{p: p}, nil
}

func (w *loupeWatcher) begin() error { return w.p.AskJSON("begin", &w.first) }

func (w *loupeWatcher) end() (s seen, err error) {
	var c count
	if err := w.p.AskJSON("end", &c); err != nil {
		return s, err
	}
	return seen{
		events: c.Produced - w.first.Produced, lost: c.Lost - w.first.Lost, yielded: c.Yielded - w.first.Yielded,
		inProbes: c.InProbes - w.first.InProbes, cpu: c.CPU - w.first.CPU, took: c.At - w.first.At, peak: c.Peak, buffer: c.Buffer, latency: c.Latency,
	}, nil
}

func (w *loupeWatcher) close() error { return w.p.Stop() }

// Stack depths of orders.
const (
	stacks   = loupe.DefaultStackDepth
	noStacks = 0
)

// bpftraceWatcher counts hits by bpftrace.
type bpftraceWatcher struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// bpftraceWay counts calls of runtime functions by probes on their first instruction.
func bpftraceWay(functions ...string) way {
	name := fmt.Sprintf("bpftrace, counting %d functions at entry", len(functions))
	return way{name, func(_ *bench, t *target, cpu int) (watcher, error) {
		var places []string
		for _, f := range functions {
			places = append(places, fmt.Sprintf("uprobe:%s:%q", t.exe, f))
		}
		script := strings.Join(places, ",") + " { @ = count(); } interval:ms:100 { print(@); }"
		w := &bpftraceWatcher{cmd: exec.Command("bpftrace", "-p", fmt.Sprint(t.PID()), "-e", script)}
		out, err := w.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		w.lines = bufio.NewScanner(out)
		if err := startOn(cpu, w.cmd); err != nil {
			return nil, err
		}
		return w, w.await()
	}}
}

// settled is how many numbers bpftrace must have printed before all its probes are in place.
const settled = 3

func (w *bpftraceWatcher) await() error {
	for n := 0; w.lines.Scan(); {
		if strings.HasPrefix(w.lines.Text(), "@: ") {
			if n++; n == settled {
				return nil
			}
		}
	}
	w.cmd.Wait()
	return fmt.Errorf("bpftrace ended")
}

func (w *bpftraceWatcher) begin() error { return nil }

// end does not tell how many hits there were: the numbers that bpftrace prints are of its own times.
func (w *bpftraceWatcher) end() (seen, error) { return seen{}, nil }

func (w *bpftraceWatcher) close() error {
	if err := w.cmd.Process.Signal(unix.SIGINT); err != nil {
		return err
	}
	var hits uint64
	for w.lines.Scan() {
		fmt.Sscanf(w.lines.Text(), "@: %d", &hits)
	}
	w.cmd.Wait() // its status tells of warnings too
	if hits == 0 {
		return fmt.Errorf("bpftrace saw nothing")
	}
	return nil
}

// tracer is the runtime's execution tracer in the target.
type tracer struct {
	nobody
	t *target
}

var tracerWay = way{"runtime/trace in the program, to /dev/null", func(_ *bench, t *target, _ int) (watcher, error) {
	_, err := t.Ask("trace on")
	return tracer{t: t}, err
}}

func (w tracer) close() error {
	_, err := w.t.Ask("trace off")
	return err
}

// runWrk puts a server under load, from one processor or anywhere.
func runWrk(addr string, connections, cpu int, d time.Duration) (r wrk.Result, err error) {
	cmd := wrk.Command("http://"+addr+"/", connections, d)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := startOn(cpu, cmd); err != nil {
		return r, err
	}
	text, err := io.ReadAll(out)
	if err != nil {
		return r, err
	}
	if err := cmd.Wait(); err != nil {
		return r, fmt.Errorf("wrk: %w", err)
	}
	return wrk.Parse(string(text))
}
