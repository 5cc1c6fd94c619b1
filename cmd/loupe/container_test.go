package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/container/containertest"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestContainer names the target by its container and by its pod. The container also has a process that is no Go program.
func TestContainer(t *testing.T) {
	id, uid := containertest.NewID(), containertest.NewUID()
	cgroup := containertest.Container(t, uid, id)
	sleeper := testcmd.Command(t, "sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sleeper.Process.Kill()
		sleeper.Wait()
	})
	cgroup.Add(t, sleeper.Process.Pid)
	expect := func(target string, status int, text string) {
		t.Helper()
		run := run
		if strings.HasPrefix(target, "pod:") {
			run = func(t *testing.T, args ...string) (int, string, string) { return runBesideKubelet(t, uid, args...) }
		}
		got, stdout, stderr := run(t, "goroutines", target)
		if line, _, _ := strings.Cut(stdout+stderr, "\n"); got != status || !strings.Contains(line, text) {
			t.Errorf("%s: status %d, %q; want %d, %q", target, got, line, status, text)
		}
	}
	expect("container:"+id, 3, "not a Go program")
	expect("pod:shop/web-0", 3, "not a Go program")
	sample := startSample(t)
	cgroup.Add(t, sample)
	for _, target := range []string{id, id[:12], "container:" + id, "pod:web-0", "pod:shop/web-0"} {
		expect(target, 0, fmt.Sprintf("pid %d,", sample))
	}
	expect("container:"+containertest.NewID(), 3, "no such process")
	expect("pod:web-1", 3, "no such process")
	expect("pod:bank/web-0", 3, "no such process")
	second := startSample(t)
	cgroup.Add(t, second)
	expect("pod:web-0", 2, fmt.Sprintf("pod:web-0 matches 2 processes: use one of the PIDs %d %d", min(sample, second), max(sample, second)))
}

// runBesideKubelet runs loupe where the directory with the logs of pods has a pod shop/web-0.
func runBesideKubelet(t *testing.T, uid string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	if _, err := os.Stat("/var/log/pods"); err == nil {
		t.Skip("this machine has a kubelet: /var/log/pods exists")
	}
	if out, err := testcmd.Combined(testcmd.Command(t, "unshare", "--mount", "true")); err != nil {
		t.Skipf("requires a mount namespace: %s", out)
	}
	const script = `mount -t tmpfs tmpfs /var/log && mkdir -p "/var/log/pods/shop_web-0_$1" && shift && exec "$@"`
	return finish(t, testcmd.Command(t, "unshare", append([]string{"--mount", "sh", "-c", script, "sh", uid, loupe}, args...)...))
}
