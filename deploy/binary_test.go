package deploy

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A binary is the agent as it is released, with a configuration of a test, and without a container.
type binary struct {
	t       *testing.T
	cmd     *exec.Cmd
	ended   <-chan struct{}
	log     string // path
	config  string // path
	scheme  string
	client  *http.Client
	metrics string // address
	health  string
}

// startBinary starts the agent, and returns when it serves. The addresses are those of the loopback interface.
func startBinary(t *testing.T, config string, args ...string) *binary {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	b := &binary{t: t, config: filepath.Join(dir, "agent.yaml"), log: filepath.Join(dir, "log"), scheme: "http",
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: testcmd.Patience}}
	write(t, b.config, config)
	b.start(args...)
	return b
}

// start starts the agent again, with the same configuration.
func (b *binary) start(args ...string) {
	t := b.t
	t.Helper()
	b.cmd = testcmd.Within(t, 0, build(t, "loupe-agent"), append([]string{"--config", b.config, "--listen=127.0.0.1:0",
		"--set=health.listen=127.0.0.1:0", "--set=kubernetes.enabled=false"}, args...)...)
	log, err := os.Create(b.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	cmd := b.cmd
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		t.Fatal(err)
	}
	b.ended = ended
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(testcmd.Patience):
			t.Error("the agent does not end")
			testcmd.Quit(cmd.Process, ended)
		}
		if t.Failed() {
			t.Log(b.logged())
		}
	})
	addresses := b.awaitLog(`msg=observing .*serving="?([0-9.:]+)(?: ([0-9.:]+))?`)
	b.metrics, b.health = addresses[1], cmp.Or(addresses[2], addresses[1])
}

// kill ends the agent without a chance to clean up.
func (b *binary) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

func (b *binary) logged() string {
	text, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// awaitLog waits until the log matches, and returns the match.
func (b *binary) awaitLog(match string) []string {
	b.t.Helper()
	pattern := regexp.MustCompile(match)
	for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(20 * time.Millisecond) {
		if m := pattern.FindStringSubmatch(b.logged()); m != nil {
			return m
		}
		select {
		case <-b.ended:
			b.t.Fatalf("the agent has ended: %s", b.logged())
		default:
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("the log does not match %s", match)
		}
	}
}

// get returns the status and the body of a page.
func (b *binary) get(address, path string) (int, string) {
	b.t.Helper()
	resp, err := b.client.Get(b.scheme + "://" + address + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// sum returns the sum of the series of a metric whose labels contain all texts.
func (b *binary) sum(name string, labels ...string) (sum float64) {
	b.t.Helper()
	_, text := b.get(b.metrics, "/metrics")
lines:
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue lines
			}
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			b.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

// await waits until the sum of a metric holds.
func (b *binary) await(holds func(float64) bool, name string, labels ...string) {
	b.t.Helper()
	for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(100 * time.Millisecond) {
		v := b.sum(name, labels...)
		if holds(v) {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s%q is %v", name, labels, v)
		}
	}
}

func atLeast(n float64) func(float64) bool { return func(v float64) bool { return v >= n } }

// pidLabel returns a label as Prometheus' text format has it.
func pidLabel(p *testtarget.Process) string { return fmt.Sprintf("pid=%q", strconv.Itoa(p.PID())) }

// colony starts a process that the agent can observe.
func colony(t *testing.T) *testtarget.Process {
	t.Helper()
	return testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
}

// only returns a configuration for processes, and further settings.
func only(settings string, targets ...*testtarget.Process) string {
	var pids []string
	for _, p := range targets {
		pids = append(pids, strconv.Itoa(p.PID()))
	}
	return "targets: {pids: [" + strings.Join(pids, ", ") + "]}\n" + settings
}
