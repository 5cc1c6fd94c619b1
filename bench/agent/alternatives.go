package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// An observer observes services.
type observer interface {
	usage() usage
	scrape() (page, error)
	stop() error
}

// A way is a way to observe services.
type way struct {
	name   string
	sees   string
	probes bool                                              // it reports the time that its probes take
	list   []*service                                        // the services that it needs; nil: any
	start  func(list []*service, to *sink) (observer, error) // returns when list is observed
}

// ways returns all ways for which there are executables. They export to a sink.
func (b *bench) ways() []way {
	loupe := func(set ...string) func([]*service, *sink) (observer, error) {
		return func(_ []*service, to *sink) (observer, error) {
			return b.startAgent(append([]string{"targets.binary_patterns=" + b.plain, "output.otlp.endpoint=http://" + to.address,
				"output.otlp.protocol=http/protobuf", "output.otlp.signals=traces"}, set...)...)
		}
	}
	goroutines := "goroutines by state and place of creation, waits and their causes, latency of the scheduler, collections, heap"
	list := []way{
		{name: "loupe-agent", sees: goroutines, probes: true, start: loupe()},
		{name: "loupe-agent, spans", sees: "the same, and spans of requests with where their time went", probes: true, start: loupe("tracing.spans=true")},
	}
	if b.obi != "" {
		list = append(list, way{name: "OBI", sees: "spans of requests, and their number, duration and size", start: b.startOBI})
	}
	if b.auto != "" {
		list = append(list, way{name: "OpenTelemetry Go auto", sees: "spans of requests", start: b.startAuto})
	}
	return list
}

// A foreign observer is the running processes of another project.
type foreign struct {
	list    []*running
	metrics string // the address of its metrics, or ""
}

// running is a process, and its log.
type running struct {
	cmd   *exec.Cmd
	log   text
	ended chan struct{} // closed when err is set
	err   error
}

// text is a log that is read while it is written.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// run starts a process and waits until its log has the text ready.
func (f *foreign) run(ready string, env []string, name string, args ...string) error {
	r := &running{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	r.cmd.Env = append(os.Environ(), env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		return err
	}
	f.list = append(f.list, r)
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	deadline := time.After(time.Minute)
	for !strings.Contains(r.log.String(), ready) {
		select {
		case <-r.ended:
			return fmt.Errorf("%s ended:\n%s", name, r.log.String())
		case <-deadline:
			return fmt.Errorf("%s observes nothing:\n%s", name, r.log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// startOBI starts one process of OBI for all services.
func (b *bench) startOBI(_ []*service, to *sink) (observer, error) {
	f := &foreign{}
	var err error
	if f.metrics, err = free(); err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(f.metrics)
	if err != nil {
		return nil, err
	}
	// Batches are as those of the others. With its defaults OBI waits 15 s for 4096 spans, reads no events while its queue has 1000, and loses spans.
	err = f.run("instrumenting process", []string{
		"OTEL_EBPF_OTLP_TRACES_MAX_QUEUE_SIZE=512",
		"OTEL_EBPF_OTLP_TRACES_BATCH_TIMEOUT=5s",
		"OTEL_EBPF_AUTO_TARGET_EXE=" + b.plain,
		"OTEL_EBPF_PROMETHEUS_PORT=" + port,
		"OTEL_EBPF_HOST_ID=bench", // it asks clouds otherwise
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://" + to.address + "/v1/traces",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
	}, b.obi)
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// startAuto starts a process of the OpenTelemetry Go auto-instrumentation for each service.
func (b *bench) startAuto(list []*service, to *sink) (observer, error) {
	f := &foreign{}
	for _, s := range list {
		err := f.run("instrumentation loaded successfully", []string{
			"OTEL_SERVICE_NAME=service",
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + to.address,
			"OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		}, b.auto, "-target-pid", strconv.Itoa(s.PID()))
		if err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

func (f *foreign) usage() (sum usage) {
	for _, r := range f.list {
		sum.cpu += program.CPU(r.cmd.Process.Pid)
		sum.rss += rssOf(r.cmd.Process.Pid)
	}
	return sum
}

func (f *foreign) scrape() (page, error) {
	if f.metrics == "" {
		return page{}, nil
	}
	return get(f.metrics)
}

// stop fails if a process has ended before. How it ends now does not matter.
func (f *foreign) stop() (err error) {
	for _, r := range f.list {
		select {
		case <-r.ended:
			err = errors.Join(err, fmt.Errorf("%s ended: %v\n%s", r.cmd.Path, r.err, r.log.String()))
		default:
			r.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	for _, r := range f.list {
		<-r.ended
	}
	return err
}

// exposed is services that serve their metrics themselves.
type exposed []*service

func (e exposed) usage() usage { return usage{} }
func (e exposed) stop() error  { return nil }

func (e exposed) scrape() (sum page, err error) {
	for _, s := range e {
		p, err := get(s.address)
		if err != nil {
			return sum, err
		}
		sum.series += p.series
	}
	return sum, nil
}
