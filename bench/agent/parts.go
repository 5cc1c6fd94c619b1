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
	cpu     float64 // processors: of all services
	request float64 // microseconds of processor time
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
	measure := func(list []*service, scrape func() error) (cost, error) {
		before := cpuOf(list)
		n, err := load(list, requests, b.time, scrape)
		used := cpuOf(list) - before
		return cost{cpu: used.Seconds() / b.time.Seconds(), request: used.Seconds() * 1e6 / float64(max(n, 1))}, err
	}
	var agentCPU, agentMemory, slower, alone, collector, collectorMemory, plainMemory []float64
	var noise, probes []float64
	var series, collectorSeries int
	for range b.rounds {
		before, err := measure(plain, nil)
		if err != nil {
			return err
		}
		a, err := b.startAgent("targets.binary_patterns=" + b.plain)
		if err != nil {
			return err
		}
		if _, err := load(plain, requests, warm, nil); err != nil {
			return err
		}
		first, err := a.scrape()
		if err != nil {
			return err
		}
		start := a.usage()
		during, err := measure(plain, func() error { s, err := a.scrape(); series = s.series; return err })
		end := a.usage()
		if err == nil {
			var second page
			second, err = a.scrape()
			probes = append(probes, 100*second.since(&first, "loupe_target_probe_seconds_total")/second.since(&first, "process_cpu_time_seconds_total"))
		}
		if stopped := a.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
		after, err := measure(plain, nil)
		if err != nil {
			return err
		}
		scraped, err := measure(with, func() error {
			collectorSeries = 0
			for _, s := range with {
				m, err := get(s.address)
				if err != nil {
					return err
				}
				collectorSeries += m.series
			}
			return nil
		})
		if err != nil {
			return err
		}
		last, err := measure(plain, nil)
		if err != nil {
			return err
		}
		agentCPU = append(agentCPU, 100*(end.cpu-start.cpu).Seconds()/b.time.Seconds())
		agentMemory = append(agentMemory, float64(end.rss)/1e6)
		slower = append(slower, 100*(during.request/((before.request+after.request)/2)-1))
		collector = append(collector, 100*(scraped.request/((after.request+last.request)/2)-1))
		noise = append(noise, 100*(after.request/before.request-1), 100*(last.request/after.request-1))
		alone = append(alone, before.request, after.request, last.request)
		plainMemory, collectorMemory = append(plainMemory, memoryOf(plain)), append(collectorMemory, memoryOf(with))
	}
	fmt.Printf("\n%d services, %d requests/s each; alone a request takes %.1f µs of processor time, and a service %.1f MB\n\n",
		crowd, requests, program.Median(alone), program.Median(plainMemory)/crowd)
	fmt.Println("| way | the observer, % of a core | its memory, MB | more processor time of the services, % | time in probes, % | more memory of a service, MB | series |")
	fmt.Println("|---|---|---|---|---|---|---|")
	fmt.Printf("| loupe-agent | %.2f | %.0f | %.1f | %.2f |  | %d |\n",
		program.Median(agentCPU), program.Median(agentMemory), program.Median(slower), program.Median(probes), series)
	more := (program.Median(collectorMemory) - program.Median(plainMemory)) / crowd
	fmt.Printf("| the Go collector in each |  |  | %.1f |  | %.1f | %d |\n", program.Median(collector), more, collectorSeries)
	fmt.Printf("\nAll rounds: the agent %.2f, services %.1f, with the collector %.1f; alone, relative to the time before: %.1f\n", agentCPU, slower, collector, noise)
	return nil
}

// saturation measures a service that answers as many requests as it can.
func (b *bench) saturation() error {
	list, err := startAll(b.plain, 1)
	if err != nil {
		return err
	}
	defer stopAll(list)
	type result struct{ rate, request float64 }
	measure := func() (result, error) {
		before := cpuOf(list)
		out, err := wrk.Command("http://"+list[0].address+"/orders", 10, 5*time.Second).CombinedOutput()
		if err != nil {
			return result{}, err
		}
		r, err := wrk.Parse(string(out))
		return result{r.Rate, (cpuOf(list) - before).Seconds() * 1e6 / float64(max(r.Requests, 1))}, err
	}
	var rate, request, alone, noise []float64
	for range 2*b.rounds + 1 {
		before, err := measure()
		if err != nil {
			return err
		}
		a, err := b.startAgent("targets.binary_patterns=" + b.plain)
		if err != nil {
			return err
		}
		_, err = measure() // the agent finds out what it can afford
		var during result
		if err == nil {
			during, err = measure()
		}
		if stopped := a.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
		after, err := measure()
		if err != nil {
			return err
		}
		rate = append(rate, 100*(1-during.rate/((before.rate+after.rate)/2)))
		request = append(request, 100*(during.request/((before.request+after.request)/2)-1))
		noise = append(noise, 100*(after.request/before.request-1))
		alone = append(alone, before.rate, after.rate)
	}
	fmt.Printf("\nat saturation, %.0f requests/s alone: with the agent %.1f %% fewer requests/s, %.1f %% more processor time for each (all rounds: %.1f; after it relative to before it: %.1f)\n",
		program.Median(alone), program.Median(rate), program.Median(request), request, noise)
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
