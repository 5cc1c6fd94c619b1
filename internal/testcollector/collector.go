package testcollector

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A Collector is a running OpenTelemetry Collector.
type Collector struct {
	HTTP, GRPC string // addresses, as in "127.0.0.1:4318"

	tb     testing.TB
	exe    string
	flags  []string
	config string // files
	output string // with what its exporter has printed
	log    string

	cmd   *exec.Cmd
	ended <-chan struct{}
}

// configuration has places for the addresses of OTLP by gRPC and by HTTP, for the exporters, and for where the exporter otlp_grpc sends.
const configuration = `receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q}
      http: {endpoint: %q}
exporters:
  debug: {verbosity: detailed, use_internal_logger: false}
  otlp_grpc: {endpoint: %q, tls: {insecure: true}, sending_queue: {enabled: false}}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [%[4]s]}
    metrics: {receivers: [otlp], exporters: [%[4]s]}
    logs: {receivers: [otlp], exporters: [%[4]s]}
`

// Profiles are experimental: a collector takes them if it has a pipeline and a flag.
const (
	profilesPipeline = "    profiles: {receivers: [otlp], exporters: [%s]}\n"
	profilesFlag     = "--feature-gates=service.profilesSupport"
)

// Start starts a collector and waits until it accepts connections. It is stopped when the test ends. The first Start builds
// the collector, and keeps it in the user's cache directory. See [Executable].
func Start(tb testing.TB) *Collector {
	tb.Helper()
	return start(tb, "debug", "localhost:1", true)
}

// StartWithoutProfiles starts a collector that does not take profiles, as usual.
func StartWithoutProfiles(tb testing.TB) *Collector {
	tb.Helper()
	return start(tb, "debug", "localhost:1", false)
}

// StartBefore starts a collector that sends all it receives to a receiver by gRPC. It responds when the receiver has responded.
func StartBefore(r *Receiver) *Collector {
	r.tb.Helper()
	return start(r.tb, "otlp_grpc", r.GRPC, true)
}

// Executable returns the path of the Collector. With few releases, it skips the test: to build the Collector takes minutes.
func Executable(tb testing.TB) string {
	tb.Helper()
	testtarget.Whole(tb, "the OpenTelemetry Collector is built for it, which takes minutes")
	return realtarget.Spec{Name: "collector", Source: realtarget.Collector{}}.Path(tb)
}

func start(tb testing.TB, exporters, next string, profiles bool) *Collector {
	tb.Helper()
	dir := tb.TempDir()
	c := &Collector{
		HTTP: testport.Address(tb), GRPC: testport.Address(tb), tb: tb, exe: Executable(tb),
		config: filepath.Join(dir, "config.yaml"), output: filepath.Join(dir, "output"), log: filepath.Join(dir, "log"),
	}
	config := fmt.Appendf(nil, configuration, c.GRPC, c.HTTP, next, exporters)
	if profiles {
		config = fmt.Appendf(config, profilesPipeline, exporters)
		c.flags = []string{profilesFlag}
	}
	if err := os.WriteFile(c.config, config, 0o644); err != nil {
		tb.Fatal(err)
	}
	c.Restart()
	return c
}

// Kill kills the collector without a chance to finish its work.
func (c *Collector) Kill() {
	_ = c.cmd.Process.Kill() // it fails if the collector has ended
	<-c.ended
}

// Restart starts the collector after Kill, and waits until it accepts connections.
func (c *Collector) Restart() {
	c.tb.Helper()
	cmd := testcmd.Within(c.tb, 0, c.exe, append(c.flags, "--config", c.config)...)
	for name, file := range map[string]*io.Writer{c.output: &cmd.Stdout, c.log: &cmd.Stderr} {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			c.tb.Fatal(err)
		}
		defer f.Close()
		*file = f
	}
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		c.tb.Fatal(err)
	}
	c.cmd, c.ended = cmd, ended
	c.tb.Cleanup(func() { stop(cmd, ended) })
	for _, addr := range []string{c.HTTP, c.GRPC} {
		if err := accepts(addr, ended); err != nil {
			printed, _ := os.ReadFile(c.log)
			c.tb.Fatalf("the collector does not start: %v\n%s", err, printed)
		}
	}
}

// Spans returns the spans that were received until now.
func (c *Collector) Spans() []Span {
	c.tb.Helper()
	return parse(c.Output())
}

// Output returns what the exporter has printed until now: all signals, in the format of the collector's debug exporter.
func (c *Collector) Output() string {
	c.tb.Helper()
	text, err := os.ReadFile(c.output)
	if err != nil {
		c.tb.Fatal(err)
	}
	return string(text)
}

// stop stops the collector.
func stop(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGTERM) // it fails if the collector has ended
	select {
	case <-ended:
	case <-time.After(patience):
		testcmd.Quit(cmd.Process, ended)
	}
}

// accepts waits until a connection to an address is accepted.
func accepts(addr string, ended <-chan struct{}) error {
	for deadline := time.Now().Add(patience); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
		select {
		case <-ended:
			return fmt.Errorf("it has ended: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
