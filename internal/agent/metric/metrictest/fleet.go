package metrictest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/sched"
)

// A Fleet is a node with programs. Its values follow from the time: counters and histograms grow, and gauges swing around a mean. Its
// methods are safe for concurrent use.
type Fleet struct {
	// Targets is the number of programs. The first one is outside of Kubernetes.
	Targets int
	// Trouble makes the first program leak goroutines, and lets the agent lose events and fail to attach.
	Trouble bool

	mu         sync.Mutex
	start, now time.Time
	rng        *rand.Rand
	histograms map[key]*metric.Durations
}

// A key is a series of a target, or of the agent as target -1.
type key struct {
	target int
	desc   *metric.Desc
	labels string
}

// maxStep bounds how much of the time between two calls adds to histograms, and so what a call costs.
const maxStep = time.Minute

// Groups returns the groups of all programs and of the agent, as of a time. The first call is the start of all counters. A time before
// that of the call before counts as that time.
func (f *Fleet) Groups(at time.Time) []metric.Group {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rng == nil {
		f.rng = rand.New(rand.NewPCG(1, 1))
		f.histograms = map[key]*metric.Durations{}
		f.start = at.Add(-maxStep)
		f.now = f.start
	}
	if at.Before(f.now) {
		at = f.now
	}
	step := min(at.Sub(f.now), maxStep)
	f.now = at
	groups := make([]metric.Group, 0, f.Targets+1)
	for i := range f.Targets {
		groups = append(groups, f.group(i, identity(i), metric.Target, step))
	}
	return append(groups, f.group(-1, metric.Identity{}, metric.Agent, step))
}

// group returns the points of a target or, if target is -1, of the agent.
func (f *Fleet) group(target int, id metric.Identity, scope metric.Scope, step time.Duration) metric.Group {
	g := metric.Group{Identity: id, Start: f.start.UnixNano(), At: f.now.UnixNano()}
	elapsed := f.now.Sub(f.start).Seconds()
	for _, d := range metric.Table {
		if d.Scope != scope {
			continue
		}
		for n, s := range shapes[d] {
			labels := s.labels
			if d == metric.Info {
				labels = infoOf(&id)
			}
			// Series of the same metric, and the same series of different targets, have different values.
			scale := 1 + float64(target+1)/10
			p := metric.Point{Desc: d, Labels: labels}
			switch {
			case d.Kind == metric.Histogram:
				p.Durations = f.durations(key{target, d, fmt.Sprint(labels)}, s.value*scale, s.seconds, step)
			case d.Kind == metric.Counter:
				p.Value = math.Floor(s.value * scale * elapsed)
			default:
				p.Value = s.value
				if s.swing != 0 {
					p.Value += s.swing * math.Sin(elapsed/60+float64(target+n))
				}
			}
			f.trouble(&p, target, elapsed)
			g.Points = append(g.Points, p)
		}
	}
	return g
}

// trouble changes the points that show it.
func (f *Fleet) trouble(p *metric.Point, target int, elapsed float64) {
	if !f.Trouble || target > 0 {
		return
	}
	const leakedEachSecond, lostEachSecond = 50, 1000
	switch {
	case target == 0:
		switch p.Desc {
		case metric.Goroutines, metric.LeakSuspects, metric.Sites, metric.States:
			p.Value += leakedEachSecond * elapsed
		case metric.Created:
			p.Value += leakedEachSecond * elapsed
		case metric.TargetLost:
			p.Value += lostEachSecond * elapsed
		}
	case p.Desc == metric.EventsLost:
		p.Value += lostEachSecond * elapsed
	case p.Desc == metric.AttachFailures:
		p.Value += elapsed
	}
}

// durations adds the durations of a step to a histogram, and returns a copy of it.
func (f *Fleet) durations(k key, rate, typical float64, step time.Duration) *metric.Durations {
	const spread = 1.2 // standard deviation of the logarithm
	d := f.histograms[k]
	if d == nil {
		d = &metric.Durations{Histogram: new(sched.Histogram)}
		f.histograms[k] = d
	}
	var last float64
	for range int(rate * step.Seconds()) {
		last = typical * math.Exp(f.rng.NormFloat64()*spread)
		d.Add(time.Duration(last * float64(time.Second)))
	}
	if last > 0 {
		e := metric.Exemplar{Seconds: last, At: f.now.UnixNano()}
		for i := range e.TraceID {
			e.TraceID[i] = byte(f.rng.Uint32())
		}
		for i := range e.SpanID {
			e.SpanID[i] = byte(f.rng.Uint32())
		}
		d.Exemplars = withExemplar(d.Exemplars, e)
	}
	histogram := *d.Histogram
	return &metric.Durations{Histogram: &histogram, Exemplars: append([]metric.Exemplar(nil), d.Exemplars...)}
}

// withExemplar adds an exemplar. There is one for each power of two.
func withExemplar(list []metric.Exemplar, e metric.Exemplar) []metric.Exemplar {
	for i := range list {
		if math.Floor(math.Log2(list[i].Seconds)) == math.Floor(math.Log2(e.Seconds)) {
			list[i] = e
			return list
		}
	}
	return append(list, e)
}

// programs are the names of the programs and of their workloads.
var programs = []string{"gateway", "checkout", "inventory", "search", "billing", "mailer"}

func identity(i int) metric.Identity {
	name := programs[i%len(programs)]
	id := metric.Identity{
		PID: 1000 + 7*i, Process: name, Exe: "/usr/local/bin/" + name, Service: name,
		Node: "node-1", GoVersion: "go1.27.4", Version: "v1.4.2",
	}
	if i == 0 {
		return id
	}
	id.Namespace = []string{"shop", "backend"}[i%2]
	id.Workload, id.Kind = name, "Deployment"
	id.Pod = fmt.Sprintf("%s-7d9f8b6c5d-%05d", name, i)
	id.PodUID = fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
	id.Container = name
	id.ContainerID = fmt.Sprintf("%064x", i)
	return id
}

func infoOf(id *metric.Identity) []string {
	return []string{id.GoVersion, id.Version, id.Service, id.Workload, id.Kind, id.Node}
}
