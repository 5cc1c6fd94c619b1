package deploy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// An agent is a loupe-agent that runs as the manifests describe it.
type agent struct {
	pid int
	log string // path
}

// startAgent starts the agent with the arguments, the configuration and the capabilities of the manifests, without some of the capabilities.
// It observes one process.
func startAgent(t *testing.T, pid string, without ...int) *agent {
	t.Helper()
	text, err := os.ReadFile("kubernetes/loupe-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(string(text))
	if err != nil {
		t.Fatal(err)
	}
	c := container{Executable: build(t, "loupe-agent"), Filter: compile(t, readProfile(t))}
	var args []string
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.ConfigMap:
			c.Config = o.Data["config.yaml"]
		case *appsv1.DaemonSet:
			main := o.Spec.Template.Spec.Containers[0]
			args = main.Args
			numbers := map[corev1.Capability]int{"BPF": unix.CAP_BPF, "PERFMON": unix.CAP_PERFMON, "SYS_PTRACE": unix.CAP_SYS_PTRACE}
			for _, name := range main.SecurityContext.Capabilities.Add {
				if !slices.Contains(without, numbers[name]) {
					c.Caps = append(c.Caps, numbers[name])
				}
			}
		}
	}
	args = append(args, "--set", "targets.pids="+pid) // other tests attach to their programs themselves
	cmd := testcmd.Within(t, 0, os.Args[0], args...)
	c.hold(t, cmd)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(testcmd.Patience):
			t.Error("the agent does not end")
			testcmd.Quit(cmd.Process, ended)
		}
	})
	return &agent{cmd.Process.Pid, log.Name()}
}

// get returns what the agent answers in its network namespace.
func (a *agent) get(url string) (string, error) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		done := make(chan result)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", a.pid))
			if err == nil {
				defer ns.Close()
				err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
			}
			var conn net.Conn
			if err == nil {
				conn, err = new(net.Dialer).DialContext(ctx, network, address)
			}
			done <- result{conn, err}
		}()
		r := <-done
		return r.conn, r.err
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return string(text), err
}

// await waits until the agent answers with text that matches.
func (a *agent) await(t *testing.T, url, match string) {
	t.Helper()
	pattern := regexp.MustCompile(match)
	for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(50 * time.Millisecond) {
		text, err := a.get(url)
		if err == nil && pattern.MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(a.log)
			t.Fatalf("%s does not match %s: %v\n%s\nthe log:\n%s", url, match, err, text, log)
		}
	}
}

const health, metricsURL = "http://127.0.0.1:8080", "http://127.0.0.1:9090/metrics"

// TestAgent runs the agent as the DaemonSet does: its configuration and capabilities suffice to observe events of a process of another
// user by engine uprobe.
func TestAgent(t *testing.T) {
	needRoot(t)
	t.Parallel()
	pid := startSample(t, 65533, 0o755)
	a := startAgent(t, pid)
	a.await(t, health+"/healthz", "")
	a.await(t, health+"/readyz", "")
	a.await(t, metricsURL, `loupe_target_level\{[^}]*engine="uprobe"[^}]*pid="`+pid+`"[^}]*\} [1-3]`)
	a.await(t, metricsURL, `loupe_goroutines_created_total\{[^}]*pid="`+pid+`"[^}]*\} [1-9]`)
}

// TestAgentWithout leaves out one capability at a time. The agent counts what it cannot observe, and its log names the capability.
func TestAgentWithout(t *testing.T) {
	needRoot(t)
	t.Parallel()
	pid := startSample(t, 65533, 0o755)
	for name, bit := range map[string]int{"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, pid, bit)
			a.await(t, health+"/healthz", "")
			if bit == unix.CAP_SYS_PTRACE {
				a.await(t, metricsURL, `loupe_agent_attach_failures_total\{[^}]*cause="permission"[^}]*\} [1-9]`)
				if text, err := a.get(health + "/readyz"); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("ready without %s: %s %v", name, text, err)
				}
			} else {
				a.await(t, metricsURL, `loupe_target_paused\{[^}]*pid="`+pid+`"[^}]*why="attach"[^}]*\} 1`)
			}
			if log, err := os.ReadFile(a.log); err != nil || !strings.Contains(string(log), name) {
				t.Errorf("the log does not name %s (%v):\n%s", name, err, log)
			}
			if text, err := a.get(metricsURL); bit != unix.CAP_SYS_PTRACE && !strings.Contains(text, `service="shop"`) {
				t.Errorf("OTEL_SERVICE_NAME of another user's process is unknown (%v)", err)
			}
		})
	}
}
