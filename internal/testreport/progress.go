package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/english"
)

// slowTest is how long a test runs before a line says so where there is no status line.
const slowTest = 2 * time.Minute

// progress shows what is running. It reads the report; on a terminal it also removes the status line before the report
// prints anything.
type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	r        *report
	began    time.Time
	shown    bool            // the status line is on the screen
	named    map[string]bool // packages whose start was printed
	slow     map[testName]time.Duration
}

// newProgress returns the progress of a report, on w.
func newProgress(w io.Writer, terminal bool, r *report) *progress {
	p := &progress{w: w, terminal: terminal, r: r, began: time.Now(), named: map[string]bool{}, slow: map[testName]time.Duration{}}
	if terminal {
		r.out = &clearing{p, r.out}
	}
	return p
}

// start shows progress at an interval until stop is called.
func (p *progress) start(every time.Duration) (stop func()) {
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show(time.Now())
			case <-quit:
				p.clear()
				return
			}
		}
	})
	return func() {
		close(quit)
		done.Wait()
	}
}

// show prints the status line, or the lines that are due.
func (p *progress) show(now time.Time) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.terminal {
		line := p.r.status(now.Sub(p.began))
		p.mu.Lock()
		defer p.mu.Unlock()
		fmt.Fprintf(p.w, "\r\x1b[K%s", line)
		p.shown = true
		return
	}
	for pkg := range p.r.started {
		if !p.named[pkg] {
			p.named[pkg] = true
			fmt.Fprintf(p.w, "running  %s\n", pkg)
		}
	}
	for name, t := range p.r.running {
		if run := now.Sub(t.began); !t.paused && !t.began.IsZero() && run >= p.slow[name]+slowTest {
			p.slow[name] = run
			fmt.Fprintf(p.w, "running  %s for %v\n", name, run.Round(time.Second))
		}
	}
}

// clear removes the status line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// status says in one short line what is running.
func (r *report) status(elapsed time.Duration) string {
	var now []string
	for _, pkg := range slices.Sorted(maps.Keys(r.started)) {
		text := pkg[strings.LastIndex(pkg, "/")+1:]
		for _, name := range r.runningOf(pkg) {
			if !r.running[name].paused {
				text += " " + name.test
				break
			}
		}
		now = append(now, text)
	}
	const most = 100 // a line that the terminal wraps cannot be removed
	line := fmt.Sprintf("%v  %s done, %s passed, %d failed; running %s", elapsed.Round(time.Second),
		english.Count(r.packages, "package"), english.Count(r.passed, "test"), r.failed, strings.Join(now, ", "))
	if len(line) > most {
		line = line[:most-3] + "..."
	}
	return line
}

// clearing removes the status line before it writes.
type clearing struct {
	p *progress
	w io.Writer
}

func (c *clearing) Write(b []byte) (int, error) {
	c.p.clear()
	return c.w.Write(b)
}
