package realtarget

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// Stacks returns the text of runtime.Stack for all goroutines, which the program
// takes while it answers a request; the goroutine of that request is the only
// one that runs.
func (p *Process) Stacks() string {
	p.tb.Helper()
	return p.get(p.plan.pprof + "/goroutine?debug=2")
}

// Goroutines returns Stacks, parsed.
func (p *Process) Goroutines() []testtarget.Goroutine {
	p.tb.Helper()
	gs, err := testtarget.ParseStacks(p.Stacks())
	if err != nil {
		p.tb.Fatalf("realtarget: stacks of %s: %v", p.spec.Name, err)
	}
	return gs
}

// CollectGarbage makes the program run a garbage collection, in which its
// runtime notes since when goroutines wait.
func (p *Process) CollectGarbage() {
	p.tb.Helper()
	p.get(p.plan.pprof + "/heap?gc=1")
}

// NumGoroutine returns how many goroutines the program says it has, those that
// answer this very question included: the metric go_goroutines where the program
// has metrics, else the total of its goroutine profile.
func (p *Process) NumGoroutine() int {
	p.tb.Helper()
	url, line := p.plan.metrics, metricLine
	if url == "" {
		url, line = p.plan.pprof+"/goroutine?debug=1", profileLine
	}
	text := p.get(url)
	match := line.FindStringSubmatch(text)
	if match == nil {
		p.tb.Fatalf("realtarget: %s gives no number of goroutines at %s", p.spec.Name, url)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		p.tb.Fatalf("realtarget: %s: %v", url, err)
	}
	return n
}

// Counters returns the values of a metric by its labels, such as
// `code="200",handler="/api/v1/query"`.
func (p *Process) Counters(metric string) map[string]int {
	p.tb.Helper()
	values := map[string]int{}
	for line := range strings.Lines(p.get(p.plan.metrics)) {
		rest, ok := strings.CutPrefix(line, metric+"{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(rest, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			p.tb.Fatalf("realtarget: metric %s of %s: %v", metric, p.spec.Name, err)
		}
		values[labels] = int(n)
	}
	return values
}

// Monitor returns what the program answers at a path of its pages about itself.
func (p *Process) Monitor(path string) string {
	p.tb.Helper()
	return p.get(p.plan.monitor + path)
}

// AccessLog returns the path of the file with a line of JSON for each request
// that was served.
func (p *Process) AccessLog() string { return p.plan.access }

// MemStats returns Mallocs and TotalAlloc of runtime.MemStats at a moment while the program answers this question. They are at
// the end of a heap profile.
func (p *Process) MemStats() (mallocs, totalAlloc uint64) {
	p.tb.Helper()
	url := p.plan.pprof + "/heap?debug=1"
	text := p.get(url)
	for name, to := range map[string]*uint64{"Mallocs": &mallocs, "TotalAlloc": &totalAlloc} {
		_, rest, _ := strings.Cut(text, "\n# "+name+" = ")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			p.tb.Fatalf("realtarget: %s gives no %s at %s", p.spec.Name, name, url)
		}
		*to = n
	}
	return mallocs, totalAlloc
}

// Where the number of goroutines is in metrics and in a goroutine profile.
var (
	metricLine  = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)
	profileLine = regexp.MustCompile(`^goroutine profile: total (\d+)\n`)
)

// get returns what the program answers at a URL.
func (p *Process) get(url string) string {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), requestTime)
	defer cancel()
	body, err := fetch(ctx, p.web, url)
	if err != nil {
		p.tb.Fatalf("realtarget: %v", fmt.Errorf("%s (pid %d): %w%s", p.spec.Name, p.PID(), err, p.tail()))
	}
	return string(body)
}
