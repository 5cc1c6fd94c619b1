package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/footprint"
	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/probe/uprobe"
	"github.com/loupe-go/loupe/sched"
)

// order is what an observer is told. An observer is this command in a process of its own, so that its processor time and
// memory are those of Loupe alone.
type order struct {
	PID         int
	StackDepth  int
	Sample      int  // observe one in this many goroutines; 0: all
	AtEntry     bool // probes on the first instruction of functions
	Single      bool // each probe attached by itself
	Inline      bool // engine inline
	Clock       inline.Source
	Asleep      bool   // the probes are attached and not enabled
	Later       bool   // events stay in the buffer until "drain"
	BufferBytes int    // 0: loupe.DefaultBufferBytes
	Latency     bool   // take the time of each event
	Profile     string // file for a profile of the processor time between begin and end; empty: none
}

// count is what an observer answers to "begin", "end" and "count": numbers since its start.
type count struct {
	Produced uint64 // events that the probes saw
	Lost     uint64
	InProbes time.Duration // an estimate of the time that the target has spent in probes
	Yielded  uint64        // events that have come through, to the last thousand
	At       time.Duration // since the observer's start
	CPU      time.Duration
	Peak     int64 // resident memory at its highest, bytes
	Buffer   int64 // of the memory that is resident now, the part that is the buffer between target and observer
	Latency  latency
}

// latency is how long events took from the probe to the handler.
type latency struct {
	Events             uint64
	P50, P90, P99, Max time.Duration
}

// drained is the answer to "drain": how many events came out of a full buffer, and the processor time that they took.
type drained struct {
	Events uint64
	CPU    time.Duration
}

func (o order) open(engine probe.Engine) (*probe.Session, error) {
	p, err := goproc.Open(o.PID, goproc.Options{})
	if err != nil {
		return nil, err
	}
	want := probe.Want{
		Kinds: event.KindsDefault, StackDepth: o.StackDepth, BufferBytes: loupe.DefaultBufferBytes, SampleOneIn: o.Sample,
	}
	if o.BufferBytes != 0 {
		want.BufferBytes = o.BufferBytes
	}
	return probe.OpenRunning(context.Background(), p, engine, want)
}

func (o order) engine() probe.Engine {
	var engine probe.Engine = uprobe.New(uprobe.Options{SingleUprobes: o.Single})
	if o.Inline {
		engine = inline.New(nil, o.Clock)
	}
	if o.AtEntry {
		engine = atEntry{engine}
	}
	if o.Asleep {
		engine = sleeping{engine}
	}
	return engine
}

// hitCost returns what a hit costs with the engine of the order.
func (o order) hitCost() (loupe.HitCost, error) {
	if o.Inline {
		return loupe.HitCost(inline.HitCost()), nil
	}
	c, err := uprobe.MeasureHit(uprobe.Options{SingleUprobes: o.Single})
	return loupe.HitCost(c), err
}

// observer takes the events of one process through the state machine.
type observer struct {
	order   order
	engine  probe.Engine
	session *probe.Session
	stood   standing
	hit     loupe.HitCost
	machine *sched.Machine
	clock   clock
	ended   chan drained

	mu        sync.Mutex // guards what follows
	measuring bool
	latency   sched.Histogram
}

// observe carries out an order until it is told to end.
func observe(text string) error {
	footprint.Command().Set() // as the loupe command does
	o := &observer{machine: sched.New(sched.Options{}), clock: newClock(), ended: make(chan drained, 1)}
	if err := json.Unmarshal([]byte(text), &o.order); err != nil {
		return err
	}
	var err error
	if o.hit, err = o.order.hitCost(); err != nil {
		return err
	}
	o.engine = o.order.engine()
	if o.session, err = o.order.open(o.engine); err != nil {
		return err
	}
	o.stood.Attach = o.stoodStill()
	defer o.session.Close()
	if !o.order.Later {
		go o.consume()
	}
	fmt.Println("attached")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := o.do(lines.Text())
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func (o *observer) do(line string) (any, error) {
	switch line {
	case "begin":
		if err := o.startProfile(); err != nil {
			return nil, err
		}
		o.measure(true)
		return o.count()
	case "end":
		o.measure(false)
		c, err := o.count()
		if o.order.Profile != "" {
			pprof.StopCPUProfile()
		}
		return c, err
	case "count":
		return o.count()
	case "drain":
		if err := o.startProfile(); err != nil {
			return nil, err
		}
		o.consume()
		pprof.StopCPUProfile()
		return <-o.ended, o.session.Err()
	case "detach":
		err := o.session.Close()
		o.stood.Detach = o.stoodStill()
		return o.stood, err
	}
	return nil, fmt.Errorf("unknown line %q", line)
}

// stoodStill returns how long the target stood still for what was done to it last.
func (o *observer) stoodStill() time.Duration {
	if e, ok := o.engine.(*inline.Engine); ok {
		return e.StoodStill()
	}
	return 0
}

// measure says whether the time of events counts.
func (o *observer) measure(on bool) {
	o.mu.Lock()
	o.measuring = on
	o.mu.Unlock()
}

// note takes the time that an event took to the handler.
func (o *observer) note(d time.Duration) {
	o.mu.Lock()
	if o.measuring {
		o.latency.Add(d)
	}
	o.mu.Unlock()
}

func (o *observer) startProfile() error {
	if o.order.Profile == "" {
		return nil
	}
	f, err := os.Create(o.order.Profile)
	if err != nil {
		return err
	}
	return pprof.StartCPUProfile(f)
}

// timeEvery is after how many events the clock is read while a full buffer is drained.
const timeEvery = 256

// consume is what loupe report does with events. The time that it returns is up to the last event but for timeEvery.
func (o *observer) consume() {
	begin := cpuTime()
	var d drained
	n := uint64(0)
	o.machine.ApplyAll(func(yield func(*event.Event) bool) {
		for ev := range o.session.Events() {
			if o.order.Latency && ev.Kind != event.GoStatus {
				o.note(time.Duration(o.clock.now() - ev.Time))
			}
			if !yield(ev) {
				return
			}
			if n++; n%timeEvery == 0 && o.order.Later {
				d.Events, d.CPU = n, cpuTime()-begin
			}
		}
	})
	o.ended <- d
}

func (o *observer) count() (c count, err error) {
	c.At, c.CPU = time.Since(o.clock.start), cpuTime()
	stats := o.session.Stats()
	for _, k := range stats.Kinds {
		c.Produced += k.Produced
	}
	c.Yielded, c.Lost, c.InProbes = stats.Events, stats.Lost, o.hit.Of(&stats)
	o.mu.Lock()
	defer o.mu.Unlock()
	h := &o.latency
	c.Latency = latency{h.Count(), h.Quantile(0.5), h.Quantile(0.9), h.Quantile(0.99), h.Max()}
	c.Peak, c.Buffer = memory()
	return c, stats.Err
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		panic(err) // cannot fail with these arguments
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// memory returns the highest resident memory of this process so far, and how much of it now is mapped from BPF maps.
// Getrusage does not serve: its peak contains that of the process before exec.
func memory() (peak, buffer int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			fmt.Sscan(rest, &peak)
		}
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return peak << 10, 0
	}
	ours := false
	for line := range strings.Lines(string(maps)) {
		var kilobytes int64
		if name := strings.Fields(line)[0]; !strings.HasSuffix(name, ":") {
			ours = strings.Contains(line, "bpf-map")
		} else if name == "Rss:" && ours {
			fmt.Sscan(line[len(name):], &kilobytes)
			buffer += kilobytes
		}
	}
	return peak << 10, buffer << 10
}

// clock tells the time as event.Event.Time does: Unix time that follows the monotonic clock.
type clock struct {
	start time.Time
	unix  int64
}

// newClock pairs the two clocks; the closest of a few readings is taken, as by package probe.
func newClock() clock {
	var best clock
	least := time.Duration(1 << 62)
	for range 5 {
		start := time.Now()
		if gap := time.Since(start); gap < least {
			least, best = gap, clock{start, start.UnixNano()}
		}
	}
	return best
}

func (c clock) now() int64 { return c.unix + time.Since(c.start).Nanoseconds() }

// attachTimes is what one attachment took.
type attachTimes struct {
	Attach time.Duration // of loupe.Attach
	First  time.Duration // from the start of the process that attaches to the first event of a probe in the handler
	Close  time.Duration
	Alive  int // goroutines at the beginning
}

// attachOnce attaches to a process that is busy, takes the first event and detaches, and prints attachTimes. started is
// when this process was started, in nanoseconds of the monotonic clock.
func attachOnce(pid int, started int64) error {
	footprint.Command().Set() // as the loupe command does
	var at attachTimes
	begin := time.Now()
	s, err := loupe.Attach(context.Background(), loupe.PID(pid), loupe.Options{})
	if err != nil {
		return err
	}
	at.Attach = time.Since(begin)
	for ev := range s.Events() {
		if ev.Kind == event.GoStatus {
			at.Alive++
			continue
		}
		if at.First == 0 {
			at.First = time.Duration(monotonic() - started)
			begin = time.Now()
			break // ends the session as Close does, and waits for that
		}
	}
	at.Close = time.Since(begin)
	if err := errors.Join(s.Err(), s.Close()); err != nil {
		return err
	}
	if at.First == 0 {
		return fmt.Errorf("process %d ended", pid)
	}
	return json.NewEncoder(os.Stdout).Encode(at)
}

func monotonic() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with this clock
	return ts.Nano()
}
