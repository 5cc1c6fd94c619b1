package agent

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// soakFor is how long TestSoak goes on. From a minute, it has more processes and goroutines, and also judges the memory of the agent.
var soakFor = flag.Duration("soak", 2*time.Second, "how long TestSoak goes on")

// startAgent starts an agent as a process of its own, which serves profiles of itself as well.
func startAgent(t *testing.T, set ...string) (cmd *exec.Cmd, a *running) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--listen", "127.0.0.1:0", "--log-level", "debug"}
	for _, kv := range append(set, "health.listen=127.0.0.1:0", "pprof.listen=localhost:0", "kubernetes.enabled=false") {
		args = append(args, "--set", kv)
	}
	cmd = testcmd.Within(t, 0, exe, args...)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	a = &running{t: t, log: &log{}}
	cmd.Stderr = a.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it has to detach from its targets
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	serving := regexp.MustCompile(`serving="([^"]*)"`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if m := serving.FindStringSubmatch(a.log.String()); m != nil {
			addresses := strings.Fields(m[1])
			a.metrics, a.health = addresses[0], addresses[0]
			return cmd, a
		}
		if time.Now().After(deadline) {
			t.Fatalf("the agent does not serve:\n%s", a.log)
		}
	}
}

// A resources is what an agent uses at a moment.
type resources struct{ rss, files, goroutines int }

var goroutinesTotal = regexp.MustCompile(`goroutine profile: total (\d+)`)

func resourcesOf(t *testing.T, pid int, pprof string) (r resources) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(v, &r.rss)
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	r.files = len(files)
	answer, err := http.Get("http://" + pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if m := goroutinesTotal.FindSubmatch(text); err == nil && m != nil {
		r.goroutines, err = strconv.Atoi(string(m[1]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSoak observes many processes, of which one starts and one ends each second, and then none: the agent has to return all that it needed for
// them, and to say for each process that it was observed or why not.
func TestSoak(t *testing.T) {
	lasting, passing, goroutines, every := 6, 4, 5000, 200*time.Millisecond
	if *soakFor >= time.Minute {
		lasting, passing, goroutines, every = 40, 10, 100_000, time.Second
	}
	exe := privateColony(t)
	cmd, a := startAgent(t, "targets.binary_patterns="+exe)
	pprof := pprofAddress(t, a)
	var pids []int
	start := func() *testtarget.Process {
		p := testtarget.Start(t, exe)
		p.Command(fmt.Sprint("hold ", goroutines/(lasting+passing)))
		pids = append(pids, p.PID())
		return p
	}
	// What the agent needs once, such as what it knows of the executable, is not a leak.
	first := start()
	a.await(atLeast(1), metric.Goroutines, "pid", fmt.Sprint(first.PID()))
	first.Stop()
	a.await(equals(0), metric.Goroutines)
	before := resourcesOf(t, cmd.Process.Pid, pprof)

	var all []*testtarget.Process
	for i := range lasting {
		p := start()
		all = append(all, p)
		if i%4 == 0 {
			p.Command("churn 200")
		}
	}
	var queue []*testtarget.Process
	for range passing {
		queue = append(queue, start())
	}
	var samples []resources
	lastSample := time.Time{}
	for end := time.Now().Add(*soakFor); time.Now().Before(end); time.Sleep(every) {
		p := queue[0]
		// One that the agent has not read yet could not be told from other programs.
		for known := fmt.Sprintf(" pid=%d ", p.PID()); !strings.Contains(a.log.String(), known); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end.Add(time.Minute)) {
				t.Fatalf("the agent does not find process %d", p.PID())
			}
		}
		if len(pids)%2 == 0 {
			p.Kill()
		} else {
			p.Stop()
		}
		queue = append(queue[1:], start())
		if time.Since(lastSample) >= 15*time.Second {
			lastSample = time.Now()
			n := a.scrape(metric.Goroutines)
			samples = append(samples, resourcesOf(t, cmd.Process.Pid, pprof))
			t.Logf("%s: %d processes so far, %v goroutines seen, agent: %+v", lastSample.UTC().Format(time.TimeOnly), len(pids), n, samples[len(samples)-1])
		}
	}
	for _, p := range append(all, queue...) {
		p.Stop()
	}
	a.await(equals(0), metric.Goroutines)
	awaitReturned(t, cmd.Process.Pid, pprof, before)
	judgeMemory(t, samples)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the agent: %v", err)
	}
	judgeProcesses(t, a.log.b.Bytes(), pids)
}

// pprofAddress finds the address that is neither for metrics nor for health checks.
func pprofAddress(t *testing.T, a *running) string {
	t.Helper()
	m := regexp.MustCompile(`serving="\S+ (\S+)"`).FindStringSubmatch(a.log.String())
	if m == nil {
		t.Fatalf("no address of pprof:\n%s", a.log)
	}
	return m[1]
}

// awaitReturned waits until the agent uses no more goroutines and files than before.
func awaitReturned(t *testing.T, pid int, pprof string, before resources) {
	t.Helper()
	var now resources
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		http.DefaultClient.CloseIdleConnections()
		if now = resourcesOf(t, pid, pprof); now.files <= before.files && now.goroutines <= before.goroutines {
			t.Logf("before: %+v, after: %+v", before, now)
			return
		}
	}
	t.Errorf("the agent has not returned what it used: %+v before, %+v now", before, now)
	r, err := http.Get("http://" + pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	t.Logf("%s", text)
}

// judgeMemory compares the memory in the second quarter of the time with that in the last quarter.
func judgeMemory(t *testing.T, samples []resources) {
	t.Helper()
	n := len(samples) / 4
	if n < 4 {
		return
	}
	median := func(list []resources) int {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b resources) int { return a.rss - b.rss })
		return list[len(list)/2].rss
	}
	early, late := median(samples[n:2*n]), median(samples[3*n:])
	t.Logf("resident memory of the agent: %d kB in the second quarter, %d kB in the last", early, late)
	if late > early+early/10 {
		t.Errorf("the agent grows")
	}
}

// judgeProcesses compares the processes that there were with what the log of the agent says of them.
func judgeProcesses(t *testing.T, log []byte, pids []int) {
	t.Helper()
	said := func(message string) map[string]int {
		n := map[string]int{}
		for _, m := range regexp.MustCompile(`msg="`+message+`" pid=(\d+)`).FindAllSubmatch(log, -1) {
			n[string(m[1])]++
		}
		return n
	}
	observed, ended, failed := said("observing process"), said("the process has ended meanwhile"), said("a process cannot be observed")
	started := map[string]int{} // more than once if the kernel has used a PID again
	for _, pid := range pids {
		started[fmt.Sprint(pid)]++
	}
	sum := [3]int{}
	for pid, n := range started {
		if said := observed[pid] + ended[pid] + failed[pid]; said != n {
			t.Errorf("%d processes had the PID %s, and the agent knows of %d", n, pid, said)
		}
		for i, m := range []map[string]int{observed, ended, failed} {
			sum[i] += m[pid]
		}
	}
	t.Logf("%d processes: %d were observed, %d ended before, %d failed", len(pids), sum[0], sum[1], sum[2])
	if sum[2] > 0 {
		t.Errorf("%d processes could not be observed", sum[2])
	}
	for _, word := range []string{"level=ERROR", "panic"} {
		if i := bytes.Index(log, []byte(word)); i >= 0 {
			t.Errorf("the log has %.500s", log[max(0, i-50):])
		}
	}
}
