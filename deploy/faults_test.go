package deploy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testmount"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestCollectorDown starts the agent while the Collector does not run. What cannot be sent is counted, the rest goes on, and the agent sends
// again when the Collector runs, also after it was killed.
func TestCollectorDown(t *testing.T) {
	t.Parallel()
	testtarget.Whole(t, "the exporters wait for long between attempts")
	target := colony(t)
	receiver := testcollector.Receive(t, nil)
	receiver.Stop()
	b := startBinary(t, only(fmt.Sprintf(`
sampling: {max_target_overhead: 100%%}
filters: {sample_long_running: 1}
output: {otlp: {protocol: http/protobuf, endpoint: "http://%s", flush_interval: 200ms, metric_interval: 1s}}
`, receiver.HTTP), target))
	b.await(atLeast(3), "loupe_target_level")
	spans := func() {
		target.Command("hold 50")
		time.Sleep(20 * time.Millisecond) // goroutines that live for less than 10 ms have no spans
		target.Command("free")
	}
	sent := func(result string) float64 {
		return b.sum("loupe_agent_export_items_total", `signal="traces"`, `result="`+result+`"`)
	}
	for round := range 2 {
		for deadline := time.Now().Add(time.Minute); ; {
			spans()
			if status, _ := b.get(b.health, "/readyz"); status == http.StatusServiceUnavailable {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the agent is ready without a Collector")
			}
		}
		if status, body := b.get(b.health, "/healthz"); status != http.StatusOK {
			t.Errorf("round %d: not healthy: %s", round, body)
		}
		exported, received := sent("exported"), len(receiver.Spans())
		receiver.Start()
		for deadline := time.Now().Add(time.Minute); sent("exported") == exported; {
			spans()
			if time.Now().After(deadline) {
				t.Fatal("the agent does not send again")
			}
		}
		if len(receiver.Spans()) == received {
			t.Error("the spans that were counted as exported have not been received")
		}
		receiver.Stop()
	}
	if target.Command("num") == "" {
		t.Error("the target does not work any more")
	}
}

// TestSlowScrapers has clients that request metrics and do not read them, more than the agent accepts. It answers health checks, goes on with
// its work, and answers others when the clients are gone.
func TestSlowScrapers(t *testing.T) {
	t.Parallel()
	target := colony(t)
	b := startBinary(t, only("", target), "--set=health.listen=127.0.0.2:0")
	b.await(atLeast(1), "loupe_agent_targets")
	var clients []net.Conn
	for range 200 {
		c, err := net.Dial("tcp", b.metrics)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := b.get(b.health, "/healthz"); status != http.StatusOK {
		t.Errorf("not healthy: %s", body)
	}
	later := colony(t)
	write(t, b.config, only("", target, later))
	b.awaitLog(fmt.Sprintf(`observing process" pid=%d `, later.PID()))
	for _, c := range clients {
		c.Close()
	}
	b.await(atLeast(1), "go_goroutine_count", pidLabel(later))
}

// fullDisk mounts a file system without free space.
func fullDisk(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir := testmount.New(t, "tmpfs", "size=64k,mode=700")
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	return dir
}

// TestDiskFull has no room for recordings and profiles. They are counted as lost, and nothing of them is left.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	testtarget.Whole(t, "growth is measured over some time")
	target := colony(t)
	dir := fullDisk(t)
	b := startBinary(t, only(fmt.Sprintf(`
tracing: {profiles: [cpu], profile_interval: 1s}
sampling: {max_target_overhead: 100%%}
alerts: {goroutine_growth: 50, for: 0s}
recordings: {directory: %s, seconds: 1}
output: {profiles: {directory: %s}}
`, dir, dir), target))
	b.await(atLeast(3), "loupe_target_level")
	target.Command("hold 1000")
	b.await(atLeast(1), "loupe_agent_recordings_total", `result="dropped"`)
	b.awaitLog("no space left on device")
	b.await(func(v float64) bool { return v > 0 }, "loupe_agent_export_items_total", `signal="profiles"`, `result="failed"`)
	if n := b.sum("loupe_agent_recordings_total", `result="written"`); n != 0 {
		t.Errorf("%v recordings are written", n)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("the directory has %v (%v)", list, err)
	}
	if status, body := b.get(b.health, "/healthz"); status != http.StatusOK {
		t.Errorf("not healthy: %s", body)
	}
}

// TestTargetsKilled kills processes while the agent attaches to them and while it observes them, with both engines.
func TestTargetsKilled(t *testing.T) {
	t.Parallel()
	testtarget.Whole(t, "many processes are started and killed")
	exe := testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true})
	name := filepath.Join(t.TempDir(), "victim")
	if err := os.Link(exe, name); err != nil {
		text, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, engine := range []string{"uprobe", "inline"} {
		t.Run(engine, func(t *testing.T) { killTargets(t, name, engine) })
	}
}

// killTargets starts an executable again and again, and kills it after different times.
func killTargets(t *testing.T, name, engine string) {
	b := startBinary(t, fmt.Sprintf("targets: {binary_patterns: [victim]}\ntracing: {engine: %s}\nsampling: {max_target_overhead: 100%%}\nlog: {level: debug}\n", engine))
	for i := range 20 {
		p := testtarget.Start(t, name)
		switch {
		case i%5 == 4:
			b.await(atLeast(3), "loupe_target_level", pidLabel(p), engine)
			p.Command("traffic 2")
		default:
			time.Sleep(time.Duration(i*i) * 4 * time.Millisecond)
		}
		p.Kill()
	}
	for _, status := range []string{"observed", "limited", "failed"} {
		b.await(func(v float64) bool { return v == 0 }, "loupe_agent_targets", status)
	}
	for _, cause := range []string{"layout", "traced", "other"} { // other processes of the machine may have the rest
		if n := b.sum("loupe_agent_attach_failures_total", `cause="`+cause+`"`); n != 0 {
			t.Errorf("engine %s: %v failures with the cause %s instead of the end of the process", engine, n, cause)
		}
	}
	if n := b.sum("loupe_agent_tracked_goroutines"); n != 0 {
		t.Errorf("engine %s: %v goroutines are tracked although no process is left", engine, n)
	}
	if log := b.logged(); strings.Contains(log, "panic") || strings.Contains(log, "level=ERROR") {
		t.Errorf("engine %s: the log has an error", engine)
	}
	if status, body := b.get(b.health, "/readyz"); status != http.StatusOK {
		t.Errorf("not ready: %s", body)
	}
}

// TestReload breaks the configuration file, at SIGHUP and by a change. The old configuration stays in effect.
func TestReload(t *testing.T) {
	t.Parallel()
	target := colony(t)
	b := startBinary(t, only("", target))
	refused := func(n float64) {
		t.Helper()
		b.await(atLeast(n), "loupe_agent_config_reloads_total", `result="refused"`)
		b.await(atLeast(1), "go_goroutine_count", pidLabel(target))
	}
	write(t, b.config, "targets: {pids: [1\n")
	refused(1)
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	refused(2)
	if err := os.Remove(b.config); err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	refused(3)
	write(t, b.config, only("sampling: {events_per_second: 7}\n", target))
	b.await(atLeast(1), "loupe_agent_config_reloads_total", `result="applied"`)
}
