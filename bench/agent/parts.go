package main

import (
	"fmt"
	"time"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/bench/internal/wrk"
)

// What services are under.
const (
	crowd       = 10  // services
	requests    = 200 // a second, for each
	scrapeEvery = 15 * time.Second
	warm        = 12 * time.Second // for which an agent runs before a measurement
)

// A cost is what a measurement has found.
type cost struct {
	requests int64
	rate     float64 // requests/s
	cpu      float64 // microseconds of the services' processor time for a request
}

// findings are what the measurements of a way have found: an element for each.
type findings struct {
	observer, memory []float64 // % of a core, MB
	slower, fewer    []float64 // %: processor time of the services, requests/s
	probes           []float64 // %: the part of the services' processor time that is in probes, as loupe-agent estimates it
	spans            []float64 // exported, for each request
	service          []float64 // MB that each service needs more
	series           int
}

// median formats the median of what was found.
func median(format string, found []float64) string {
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf(format, program.Median(found))
}

// services measures services under a light load.
func (b *bench) services() error {
	plain, err := startAll(b.plain, crowd)
	if err != nil {
		return err
	}
	defer stopAll(plain)
	with, err := startAll(b.with, crowd)
	if err != nil {
		return err
	}
	defer stopAll(with)
	ways := append(b.ways(), way{
		name: "the Go collector in each", sees: "goroutines, threads, heap, collections, processor time: numbers of the process", list: with,
		start: func([]*service, *sink) (observer, error) { return exposed(with), nil },
	})
	measure := func(list []*service, scrape func() error) (cost, error) {
		before := cpuOf(list)
		n, err := load(list, requests, b.time, scrape)
		return cost{n, float64(n) / b.time.Seconds(), (cpuOf(list) - before).Seconds() * 1e6 / float64(max(n, 1))}, err
	}
	prepare := func(list []*service) error {
		_, err := load(list, requests, warm, nil)
		return err
	}
	found, alone, noise, err := b.compare(ways, plain, b.rounds, prepare, measure)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d services, %d requests/s each; alone a request takes %.1f µs of processor time, and a service %.1f MB\n\n",
		crowd, requests, program.Median(costs(alone)), memoryOf(plain)/crowd)
	fmt.Println("| way | the observer, % of a core | its memory, MB | more processor time of the services, % | time in probes, % | more memory of a service, MB | series | spans a request | sees |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for i, w := range ways {
		f := found[i]
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %d | %s | %s |\n", w.name, median("%.2f", f.observer), median("%.0f", f.memory), median("%.1f", f.slower),
			median("%.2f", f.probes), median("%.1f", f.service), f.series, median("%.2f", f.spans), w.sees)
	}
	for i, w := range ways {
		fmt.Printf("\n%s, all rounds: the observer %.2f, the services %.1f", w.name, found[i].observer, found[i].slower)
	}
	fmt.Printf("\nalone, relative to the time before: %.1f\n", noise)
	return nil
}

// compare measures ways in turns, each between two measurements of the services alone. It also returns what the services alone cost, and by how
// many percent that differed from the time before.
func (b *bench) compare(ways []way, plain []*service, rounds int, prepare func([]*service) error,
	measure func([]*service, func() error) (cost, error)) (found []findings, alone []cost, noise []float64, err error) {
	found = make([]findings, len(ways))
	before, err := measure(plain, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	alone = append(alone, before)
	for range rounds {
		for i, w := range ways {
			list := plain
			if w.list != nil {
				list = w.list
			}
			during, err := w.observe(list, &found[i], prepare, measure)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", w.name, err)
			}
			after, err := measure(plain, nil)
			if err != nil {
				return nil, nil, nil, err
			}
			found[i].slower = append(found[i].slower, 100*(during.cpu/((before.cpu+after.cpu)/2)-1))
			found[i].fewer = append(found[i].fewer, 100*(1-during.rate/((before.rate+after.rate)/2)))
			if w.list != nil {
				found[i].service = append(found[i].service, (memoryOf(list)-memoryOf(plain))/float64(len(list)))
			}
			noise, alone = append(noise, 100*(after.cpu/before.cpu-1)), append(alone, after)
			before = after
		}
	}
	return found, alone, noise, nil
}

// observe measures services while they are observed in this way.
func (w *way) observe(list []*service, f *findings, prepare func([]*service) error, measure func([]*service, func() error) (cost, error)) (during cost, err error) {
	to, err := startSink()
	if err != nil {
		return during, err
	}
	defer to.server.Close()
	o, err := w.start(list, to)
	if err != nil {
		return during, err
	}
	defer func() {
		if stopped := o.stop(); err == nil {
			err = stopped
		}
	}()
	if w.list == nil {
		if err := prepare(list); err != nil {
			return during, err
		}
		time.Sleep(warm / 2) // the last batch
	}
	first, err := o.scrape()
	if err != nil {
		return during, err
	}
	spans, start, began := to.sent(), o.usage(), time.Now()
	if during, err = measure(list, func() error { _, err := o.scrape(); return err }); err != nil {
		return during, err
	}
	end, took := o.usage(), time.Since(began)
	last, err := o.scrape()
	f.series = last.series
	if err != nil || w.list != nil {
		return during, err
	}
	time.Sleep(warm / 2)
	f.observer = append(f.observer, 100*(end.cpu-start.cpu).Seconds()/took.Seconds())
	f.memory = append(f.memory, float64(end.rss)/1e6)
	f.spans = append(f.spans, float64(to.sent()-spans)/float64(max(during.requests, 1)))
	if w.probes {
		f.probes = append(f.probes, 100*last.since(&first, "loupe_target_probe_seconds_total")/last.since(&first, "process_cpu_time_seconds_total"))
	}
	return during, nil
}

// costs returns the processor time of each cost.
func costs(list []cost) (cpu []float64) {
	for _, c := range list {
		cpu = append(cpu, c.cpu)
	}
	return cpu
}

// saturation measures a service that answers as many requests as it can.
func (b *bench) saturation() error {
	list, err := startAll(b.plain, 1)
	if err != nil {
		return err
	}
	defer stopAll(list)
	measure := func(list []*service, _ func() error) (cost, error) {
		before := cpuOf(list)
		out, err := wrk.Command("http://"+list[0].address+"/orders", 10, 5*time.Second).CombinedOutput()
		if err != nil {
			return cost{}, err
		}
		r, err := wrk.Parse(string(out))
		return cost{int64(r.Requests), r.Rate, (cpuOf(list) - before).Seconds() * 1e6 / float64(max(r.Requests, 1))}, err
	}
	ways := b.ways()
	prepare := func(list []*service) error { _, err := measure(list, nil); return err } // the agent finds out what it can afford
	found, alone, noise, err := b.compare(ways, list, 2*b.rounds+1, prepare, measure)
	if err != nil {
		return err
	}
	var rates []float64
	for _, c := range alone {
		rates = append(rates, c.rate)
	}
	fmt.Printf("\nat saturation, %.0f requests/s alone\n\n", program.Median(rates))
	fmt.Println("| way | fewer requests/s, % | more processor time of the service for a request, % | the observer, % of a core | its memory, MB | spans a request |")
	fmt.Println("|---|---|---|---|---|---|")
	for i, w := range ways {
		f := found[i]
		fmt.Printf("| %s | %s | %s | %s | %s | %s |\n", w.name, median("%.1f", f.fewer), median("%.1f", f.slower), median("%.1f", f.observer), median("%.0f", f.memory), median("%.3f", f.spans))
	}
	for i, w := range ways {
		fmt.Printf("\n%s, all rounds: fewer requests/s %.1f, more processor time %.1f", w.name, found[i].fewer, found[i].slower)
	}
	fmt.Printf("\nalone, relative to the time before: %.1f\n", noise)
	return nil
}

// everything has the agent observe all events of a target.
var everything = []string{"sampling.max_target_overhead=100%", "sampling.events_per_second=10000000", "budget.cpu=4"}

// events measures latencies and losses.
func (b *bench) events() error {
	fmt.Println("\n| engine | events/s wanted | events/s received | lost | median latency below, µs | 99 % below, µs | agent, % of a core | agent, MB |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for _, way := range []struct {
		engine string
		rate   int
	}{{"uprobe", 2000}, {"uprobe", 10_000}, {"inline", 2000}, {"inline", 10_000}, {"inline", 100_000}} { // 100,000 hits of uprobes are more than a target may be slowed
		list, err := startAll(b.plain, 1)
		if err != nil {
			return err
		}
		r, err := b.eventsAt(list[0], way.engine, way.rate)
		stopAll(list)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %d | %.0f | %.4f %% | %.0f | %.0f | %.1f | %.0f |\n", way.engine, way.rate, r.received, r.lost, r.median, r.p99, r.cpu, r.memory)
	}
	return nil
}

// flow is how events reach the agent.
type flow struct{ received, lost, median, p99, cpu, memory float64 }

func (b *bench) eventsAt(s *service, engine string, rate int) (f flow, err error) {
	if _, err := s.Ask("events", rate); err != nil {
		return f, err
	}
	a, err := b.startAgent(append([]string{"targets.binary_patterns=" + b.plain, "tracing.engine=" + engine}, everything...)...)
	if err != nil {
		return f, err
	}
	defer a.stop()
	time.Sleep(warm)
	before, err := a.scrapeNative()
	if err != nil {
		return f, err
	}
	start, began := a.usage(), time.Now()
	time.Sleep(b.time)
	after, err := a.scrapeNative()
	end, took := a.usage(), time.Since(began).Seconds()
	received := after.sum("loupe_agent_events_received_total") - before.sum("loupe_agent_events_received_total")
	lost := after.sum("loupe_agent_events_lost_total") - before.sum("loupe_agent_events_lost_total")
	return flow{received: received / took, lost: 100 * lost / max(received+lost, 1), median: 1e6 * quantile(before, after, 0.5), p99: 1e6 * quantile(before, after, 0.99),
		cpu: 100 * (end.cpu - start.cpu).Seconds() / took, memory: float64(end.rss) / 1e6}, err
}

// goroutines measures the memory that the agent needs for each goroutine of a process that starts many.
func (b *bench) goroutines() error {
	memory := []string{"tracing.goroutine_events=false", "tracing.channel_operations=false", "tracing.mutex_contention=false"}
	for _, level := range []struct {
		name string
		set  []string
	}{{"counted in memory", memory}, {"tracked by events", everything}} {
		var each []float64
		var tracked float64
		for range b.rounds {
			bytes, n, err := b.memoryOfEach(level.set)
			if err != nil {
				return err
			}
			each, tracked = append(each, bytes), n
		}
		fmt.Printf("\n%d goroutines %s: %.0f bytes of heap for each (loupe_agent_tracked_goroutines: %.0f)\n", many, level.name, program.Median(each), tracked)
	}
	return nil
}

// many goroutines are started in steps, so slowly that their events are affordable.
const (
	many      = 100_000
	many1     = 250
	manyPause = 50 * time.Millisecond
)

func (b *bench) memoryOfEach(set []string) (bytes, tracked float64, err error) {
	list, err := startAll(b.plain, 1)
	if err != nil {
		return 0, 0, err
	}
	defer stopAll(list)
	a, err := b.startAgent(append([]string{"targets.binary_patterns=" + b.plain}, set...)...)
	if err != nil {
		return 0, 0, err
	}
	defer a.stop()
	time.Sleep(warm)
	before, err := a.heap()
	if err != nil {
		return 0, 0, err
	}
	for range many / many1 {
		if _, err := list[0].Ask("hold", many1); err != nil {
			return 0, 0, err
		}
		time.Sleep(manyPause)
	}
	time.Sleep(warm) // until the next census
	after, err := a.heap()
	if err != nil {
		return 0, 0, err
	}
	page, err := a.scrape()
	return (after - before) / many, page.sum("loupe_agent_tracked_goroutines"), err
}
