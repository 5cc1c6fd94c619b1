package testcollector

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// A Collector is a running OpenTelemetry Collector.
type Collector struct {
	HTTP, GRPC string // addresses, as in "127.0.0.1:4318"

	tb     testing.TB
	output string // file with what its exporter has printed
}

// configuration has places for the addresses of OTLP by gRPC and by HTTP.
const configuration = `receivers:
  otlp:
    protocols:
      grpc: {endpoint: %q}
      http: {endpoint: %q}
exporters:
  debug: {verbosity: detailed, use_internal_logger: false}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    traces: {receivers: [otlp], exporters: [debug]}
    metrics: {receivers: [otlp], exporters: [debug]}
`

// Start starts a collector and waits until it accepts connections. It is stopped when the test ends. The first Start builds
// the collector, which takes one to two minutes, and keeps it in the user's cache directory.
func Start(tb testing.TB) *Collector {
	tb.Helper()
	exe := realtarget.Spec{Name: "collector", Source: realtarget.Collector{}}.Path(tb)
	dir := tb.TempDir()
	c := &Collector{tb: tb, HTTP: freeAddress(tb), GRPC: freeAddress(tb), output: filepath.Join(dir, "output")}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, configuration, c.GRPC, c.HTTP), 0o644); err != nil {
		tb.Fatal(err)
	}
	output, err := os.Create(c.output)
	if err != nil {
		tb.Fatal(err)
	}
	defer output.Close()
	cmd := testcmd.Within(tb, 0, exe, "--config", config)
	cmd.Stdout = output
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { stop(cmd, ended) })
	for _, addr := range []string{c.HTTP, c.GRPC} {
		if err := accepts(addr, ended); err != nil {
			printed, _ := os.ReadFile(log.Name())
			tb.Fatalf("the collector does not start: %v\n%s", err, printed)
		}
	}
	return c
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

// freeAddress returns an address on the loopback interface at which nobody listens.
func freeAddress(tb testing.TB) string {
	tb.Helper()
	addr := "127.0.0.1:0"
	listen(tb, &addr).Close()
	return addr
}
