package glti

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"sync"
	"time"
)

// cpuHz is the rate of pprof.StartCPUProfile.
const cpuHz = 100

// cpuWindow is the time after which a profile is read, so that it does not become large, and started again if the
// application's profile prevented it.
const cpuWindow = 5 * time.Second

// cpuCollector runs CPU profiles one after the other, for all open ones.
type cpuCollector struct {
	mu      sync.Mutex
	open    map[*cpuProfile]bool
	running *bytes.Buffer // what the current profile is written to, or nil
	frames  frameTable
	wake    chan struct{} // closed to end the goroutine that reads windows
}

// cpuProfile is an open CPU profile.
type cpuProfile struct {
	collector *cpuCollector
	rate      int
	credit    int // part of a sample that is left over, in cpuHz-ths
	stacks    []StackRecord
	err       error
}

func (s *stock) openCPU(rate int) (openProfile, error) {
	if rate > cpuHz {
		return nil, fmt.Errorf("rate %d: %w: the maximum is %d", rate, ErrUnavailable, cpuHz)
	}
	c := &s.cpu
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &cpuProfile{collector: c, rate: rate}
	if c.open == nil {
		c.open = map[*cpuProfile]bool{}
	}
	c.open[p] = true
	if len(c.open) == 1 {
		c.wake = make(chan struct{})
		go c.loop(c.wake)
	}
	c.start()
	return p, nil
}

// loop reads windows until end is closed.
func (c *cpuCollector) loop(end chan struct{}) {
	ticker := time.NewTicker(cpuWindow)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.mu.Lock()
			c.read()
			c.mu.Unlock()
		case <-end:
			return
		}
	}
}

// start starts a profile if none runs, somebody wants one, and the application has none.
func (c *cpuCollector) start() {
	if c.running != nil || len(c.open) == 0 {
		return
	}
	var buf bytes.Buffer
	if pprof.StartCPUProfile(&buf) == nil {
		c.running = &buf
	}
}

// read ends the current profile, gives its samples to the open ones, and starts the next.
func (c *cpuCollector) read() {
	defer c.start()
	if c.running == nil {
		return
	}
	pprof.StopCPUProfile()
	samples, err := parseProfile(c.running)
	c.running = nil
	for p := range c.open {
		if err != nil {
			p.err = err
		}
	}
	for i := range samples {
		record := c.frames.record(&samples[i])
		for p := range c.open {
			p.add(record, samples[i].count)
		}
	}
}

// add adds count samples of a stack, thinned to the profile's rate.
func (p *cpuProfile) add(record StackRecord, count int64) {
	for ; count > 0; count-- {
		if p.credit += p.rate; p.credit >= cpuHz {
			p.credit -= cpuHz
			p.stacks = append(p.stacks, record)
		}
	}
}

func (p *cpuProfile) snapshot() (snapshot, error) {
	c := p.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	s, err := snapshot{stacks: p.stacks}, p.err
	p.stacks, p.err = nil, nil
	return s, err
}

func (p *cpuProfile) close() {
	c := p.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
	delete(c.open, p)
	if len(c.open) == 0 {
		if c.running != nil {
			pprof.StopCPUProfile()
			c.running = nil
		}
		close(c.wake)
	}
}
