package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// sink is a server that counts what is exported to it.
type sink struct {
	server   *http.Server
	address  string
	mu       sync.Mutex
	requests map[string]int
	bytes    map[string]int64
	spans    int64
}

func startSink() (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{address: l.Addr().String(), requests: map[string]int{}, bytes: map[string]int64{}}
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signal, n, spans := strings.TrimPrefix(r.URL.Path, "/v1/"), int64(len(body)), int64(0)
		if signal == "traces" {
			spans = count(plainly(r, body), 1, 2, 2) // ExportTraceServiceRequest.resource_spans.scope_spans.spans
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.spans += spans
		s.requests[signal]++
		s.bytes[signal] += n
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go s.server.Serve(l)
	return s, nil
}

// plainly returns the body of a request without its compression, or nil.
func plainly(r *http.Request, body []byte) []byte {
	if r.Header.Get("Content-Encoding") != "gzip" {
		return body
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	body, _ = io.ReadAll(z)
	return body
}

// count returns how many fields a message of Protocol Buffers has at a path of field numbers.
func count(message []byte, path ...protowire.Number) (n int64) {
	if len(path) == 0 {
		return 1
	}
	for len(message) > 0 {
		field, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return n
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(field, kind, message); size < 0 {
			return n
		}
		if field == path[0] && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			n += count(value, path[1:]...)
		}
		message = message[size:]
	}
	return n
}

// sent returns the number of spans that were exported to the sink.
func (s *sink) sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans
}

// growth measures the cost of more processes, goroutines and events, and what is sent.
func (b *bench) growth() error {
	fmt.Println("\n| processes | goroutines in all | events/s in all | agent, % of a core | agent, MB | series | bytes a scrape | compressed | scrape, ms | bytes an export of metrics |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	for _, g := range []struct{ processes, goroutines, events int }{
		{1, 0, 0}, {10, 0, 0}, {100, 0, 0},
		{10, 1000, 0}, {10, 10_000, 0}, {10, 100_000, 0},
		{10, 0, 1000}, {10, 0, 10_000}, {10, 0, 100_000},
	} {
		if err := b.grown(g.processes, g.goroutines, g.events); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) grown(processes, goroutines, events int) error {
	list, err := startAll(b.plain, processes)
	if err != nil {
		return err
	}
	defer stopAll(list)
	for _, s := range list {
		if _, err := s.Ask("hold", goroutines/processes); err != nil {
			return err
		}
		if _, err := s.Ask("events", events/processes); err != nil {
			return err
		}
	}
	out, err := startSink()
	if err != nil {
		return err
	}
	defer out.server.Close()
	set := []string{"targets.binary_patterns=" + b.plain, "output.otlp.endpoint=http://" + out.address, "output.otlp.protocol=http/protobuf", "output.otlp.metric_interval=5s", "budget.cpu=4"}
	if events > 0 {
		set = append(append(set, everything...), "tracing.engine=inline")
	}
	a, err := b.startAgent(set...)
	if err != nil {
		return err
	}
	defer a.stop()
	time.Sleep(warm + time.Duration(processes)*100*time.Millisecond)
	if _, err := a.scrape(); err != nil {
		return a.failed(err)
	}
	start, began := a.usage(), time.Now()
	time.Sleep(b.time)
	end, took := a.usage(), time.Since(began).Seconds()
	m, err := a.scrape()
	if err != nil {
		return a.failed(err)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	fmt.Printf("| %d | %.0f | %d | %.2f | %.0f | %d | %d | %d | %.0f | %d |\n", processes, m.sum("go_goroutine_count"), events, 100*(end.cpu-start.cpu).Seconds()/took, float64(end.rss)/1e6,
		m.series, m.bytes, m.compressed, m.took.Seconds()*1e3, out.bytes["metrics"]/int64(max(1, out.requests["metrics"])))
	return nil
}

// exports measures what spans of requests need on the network.
func (b *bench) exports() error {
	list, err := startAll(b.plain, crowd)
	if err != nil {
		return err
	}
	defer stopAll(list)
	out, err := startSink()
	if err != nil {
		return err
	}
	defer out.server.Close()
	a, err := b.startAgent("targets.binary_patterns="+b.plain, "tracing.spans=true", "output.otlp.endpoint=http://"+out.address, "output.otlp.protocol=http/protobuf")
	if err != nil {
		return err
	}
	defer a.stop()
	if _, err := load(list, requests, warm, nil); err != nil {
		return err
	}
	before, bytes := exported(a, out)
	n, err := load(list, requests, b.time, nil)
	if err != nil {
		return err
	}
	time.Sleep(warm / 2) // the last batch
	after, sent := exported(a, out)
	fmt.Printf("\n%d services, %d requests/s each: %d requests, %.0f spans exported, %.0f bytes each on the network\n", crowd, requests, n, after-before, (sent-bytes)/max(1, after-before))
	return nil
}

// exported returns the number of spans that were exported, and their bytes.
func exported(a *agent, out *sink) (spans, bytes float64) {
	p, err := a.scrape()
	if err != nil {
		return 0, 0
	}
	for _, m := range p.families["loupe_agent_export_items_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["signal"] == "traces" && labels["result"] == "exported" {
			spans = m.GetCounter().GetValue()
		}
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	return spans, float64(out.bytes["traces"])
}
