package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// A service is a running service.
type service struct {
	*program.Program
	address string
}

func startAll(exe string, n int) (list []*service, err error) {
	for range n {
		p, err := program.Start(exec.Command(exe))
		if err == nil {
			s := &service{Program: p}
			list = append(list, s)
			s.address, err = p.Line()
		}
		if err != nil {
			stopAll(list)
			return nil, err
		}
	}
	return list, nil
}

func stopAll(list []*service) {
	for _, s := range list {
		s.Stop()
	}
}

// load sends requests at a rate to each service for a time, and calls scrape every scrapeEvery, the first time at half of that. It returns the
// number of requests that were answered.
func load(list []*service, rate int, d time.Duration, scrape func() error) (n int64, err error) {
	var answered atomic.Int64
	var wait sync.WaitGroup
	var mu sync.Mutex
	fail := func(e error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = e
		}
	}
	end := time.Now().Add(d)
	for _, s := range list {
		wait.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			tick := time.NewTicker(time.Second / time.Duration(rate))
			defer tick.Stop()
			for time.Now().Before(end) {
				<-tick.C
				r, err := client.Get("http://" + s.address + "/orders")
				if err != nil {
					fail(err)
					return
				}
				io.Copy(io.Discard, r.Body)
				r.Body.Close()
				answered.Add(1)
			}
		})
	}
	for next := time.Now().Add(scrapeEvery / 2); scrape != nil && next.Before(end); next = next.Add(scrapeEvery) {
		time.Sleep(time.Until(next))
		if err := scrape(); err != nil {
			fail(err)
		}
	}
	wait.Wait()
	return answered.Load(), err
}

// cpuOf returns the processor time of services, exact to nanoseconds, of the threads that they have.
func cpuOf(list []*service) (sum time.Duration) {
	for _, s := range list {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.PID()))
		for _, f := range files {
			text, _ := os.ReadFile(f)
			var ns int64
			fmt.Sscan(string(text), &ns)
			sum += time.Duration(ns)
		}
	}
	return sum
}

// memoryOf returns the resident memory of services in MB.
func memoryOf(list []*service) (sum float64) {
	for _, s := range list {
		sum += float64(rssOf(s.PID())) / 1e6
	}
	return sum
}

func rssOf(pid int) (bytes int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if f := strings.Fields(string(text)); len(f) > 1 {
		bytes, _ = strconv.ParseInt(f[1], 10, 64)
	}
	return bytes * int64(os.Getpagesize())
}

// An agent is a running agent.
type agent struct {
	cmd            *exec.Cmd
	log            bytes.Buffer
	metrics, pprof string
}

// free returns an address that is free.
func free() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// startAgent starts an agent with settings, and waits until it serves.
func (b *bench) startAgent(set ...string) (*agent, error) {
	a := &agent{}
	var err error
	if a.metrics, err = free(); err != nil {
		return nil, err
	}
	if a.pprof, err = free(); err != nil {
		return nil, err
	}
	args := []string{"--listen", a.metrics}
	for _, kv := range append([]string{"health.listen=", "pprof.listen=" + a.pprof, "kubernetes.enabled=false"}, set...) {
		args = append(args, "--set", kv)
	}
	a.cmd = exec.Command(b.agent, args...)
	a.cmd.Stderr = &a.log
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if c, err := net.Dial("tcp", a.metrics); err == nil {
			return a, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	a.stop()
	return nil, fmt.Errorf("the agent does not serve:\n%s", a.log.String())
}

func (a *agent) stop() error {
	a.cmd.Process.Signal(syscall.SIGTERM)
	if err := a.cmd.Wait(); err != nil {
		return fmt.Errorf("the agent: %w\n%s", err, a.log.String())
	}
	return nil
}

// failed stops an agent that does not answer, and returns the error with its log.
func (a *agent) failed(err error) error {
	return errors.Join(err, a.stop(), errors.New(a.log.String()))
}

// usage is what an agent has used.
type usage struct {
	cpu time.Duration
	rss int64
}

func (a *agent) usage() usage {
	return usage{program.CPU(a.cmd.Process.Pid), rssOf(a.cmd.Process.Pid)}
}

// heap returns the bytes of the agent's heap that are in use after a collection.
func (a *agent) heap() (float64, error) {
	r, err := http.Get("http://" + a.pprof + "/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "# HeapAlloc = ")
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(line, 64)
}

// A page is what a scrape returns.
type page struct {
	families          map[string]*dto.MetricFamily
	series            int
	bytes, compressed int
	took              time.Duration
}

func (a *agent) scrape() (page, error) { return get(a.metrics) }

// get scrapes an address.
func get(address string) (p page, err error) {
	begin := time.Now()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return p, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return p, err
	}
	p.took, p.bytes = time.Since(begin), len(text)
	for line := range strings.Lines(string(text)) {
		if line[0] != '#' {
			p.series++
		}
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(text)
	z.Close()
	p.compressed = b.Len()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	p.families, err = parser.TextToMetricFamilies(bytes.NewReader(text))
	return p, err
}

// sum returns the sum of the series of a metric.
func (p *page) sum(name string) (sum float64) {
	for _, m := range p.families[name].GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

// since returns by how much the sum of the series of a counter has grown.
func (p *page) since(before *page, name string) float64 { return p.sum(name) - before.sum(name) }

// scrapeNative scrapes an agent as Prometheus does: with native histograms.
func (a *agent) scrapeNative() (page, error) {
	q, err := http.NewRequest(http.MethodGet, "http://"+a.metrics+"/metrics", nil)
	if err != nil {
		return page{}, err
	}
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	q.Header.Set("Accept", string(format))
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return page{}, err
	}
	defer r.Body.Close()
	p := page{families: map[string]*dto.MetricFamily{}}
	for d := expfmt.NewDecoder(r.Body, format); ; {
		f := &dto.MetricFamily{}
		if err := d.Decode(f); err == io.EOF {
			return p, nil
		} else if err != nil {
			return p, err
		}
		p.families[f.GetName()] = f
	}
}

// quantile returns the upper bound of the bucket of the native histogram of latencies in which a quantile is, in seconds, of what was
// counted between two scrapes.
func quantile(before, after page, q float64) float64 {
	counts, total, schema := map[int]int64{}, int64(0), int32(0)
	for i, p := range []page{before, after} {
		sign := int64(2*i - 1)
		for _, m := range p.families["loupe_agent_event_latency_seconds"].GetMetric() {
			h := m.GetHistogram()
			schema = h.GetSchema()
			total += sign * int64(h.GetSampleCount())
			at, count, deltas := 0, int64(0), h.GetPositiveDelta()
			for _, span := range h.GetPositiveSpan() {
				at += int(span.GetOffset())
				for range span.GetLength() {
					count += deltas[0]
					deltas = deltas[1:]
					counts[at] += sign * count
					at++
				}
			}
		}
	}
	var sum int64
	for _, at := range slices.Sorted(maps.Keys(counts)) {
		if sum += counts[at]; sum > 0 && float64(sum) >= q*float64(total) {
			return math.Exp2(float64(at) / math.Exp2(float64(schema)))
		}
	}
	return 0
}
