package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/loupe-go/loupe/internal/testkube"
)

func TestMain(m *testing.M) {
	if os.Getenv(podVariable) != "" {
		if err := beInPod(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// TestWatch follows a pod through its life, with servers that stream the list of pods and with those that do not.
func TestWatch(t *testing.T) {
	for name, old := range map[string]bool{"streamed": false, "listed": true} {
		t.Run(name, func(t *testing.T) {
			m := newMock(t)
			m.noWatchList = old
			m.put("ADDED", runningPod("web", "u1"))
			changes := make(chan string, 100)
			w := watchMock(t, m, Options{Changed: func(uid string) { changes <- uid }, UserAgent: "loupe-test"})
			await(t, changes, "u1")
			if p, ok := w.Find("", "u1-main"); !ok || p.Name != "web" || p.Container != "main" || p.UID != "u1" || p.Workload != "web" || p.WorkloadKind != "Pod" {
				t.Errorf("found %v %+v", ok, p)
			}
			if p, ok := w.Find("u1", "cri-o://other"); !ok || p.Name != "web" || p.Container != "" {
				t.Errorf("found %v %+v by UID", ok, p)
			}
			if _, ok := w.Find("", ""); ok {
				t.Error("found a pod without any ID")
			}

			pod := runningPod("web", "u1")
			pod.Labels, pod.Annotations = map[string]string{"app": "web"}, map[string]string{"loupe.dev/observe": "false", "other": "x"}
			m.put("MODIFIED", pod)
			await(t, changes, "u1")
			if p, _ := w.Find("", "containerd://u1-main"); p.Labels["app"] != "web" || p.Annotations["loupe.dev/observe"] != "false" || len(p.Annotations) != 1 {
				t.Errorf("found %+v", p)
			}
			pod.Status.Message = "nothing that is kept has changed"
			m.put("MODIFIED", pod)
			other := runningPod("foreign", "u2")
			other.Spec.NodeName = "two"
			m.put("ADDED", other)
			m.put("ADDED", runningPod("next", "u3"))
			await(t, changes, "u3")
			if _, ok := w.Find("u2", "u2-main"); ok {
				t.Error("found a pod of another node")
			}
			m.put("DELETED", pod)
			await(t, changes, "u1")
			if _, ok := w.Find("u1", "u1-main"); ok {
				t.Error("found a deleted pod")
			}
			if s := w.Status(); !s.Synced || s.Pods != 1 || s.Omitted != 0 || s.LastError != nil {
				t.Errorf("status %+v", s)
			}
			const selector = "spec.nodeName=one,status.phase!=Succeeded,status.phase!=Failed"
			if m.selectors[0] != selector || m.agents[0] != "loupe-test" {
				t.Errorf("requested %q as %q", m.selectors, m.agents)
			}
		})
	}
}

// await waits for the next change.
func await(t *testing.T, changes <-chan string, want string) {
	t.Helper()
	select {
	case got := <-changes:
		if got != want {
			t.Fatalf("pod %q has changed, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("pod %q does not change", want)
	}
}

// TestRefused compares what is reported if access is denied, and that the pods that are known are kept.
func TestRefused(t *testing.T) {
	for status, test := range map[int]struct {
		hint string
		is   func(error) bool
	}{
		http.StatusUnauthorized:        {"check the service account", apierrors.IsUnauthorized},
		http.StatusForbidden:           {"grant list and watch on pods", apierrors.IsForbidden},
		http.StatusInternalServerError: {"", func(err error) bool { return err != nil }},
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			m := newMock(t)
			m.put("ADDED", runningPod("web", "u1"))
			log := &logged{}
			printed := captureStderr(t)
			w := watchMock(t, m, Options{Log: log.logger(), backoff: &wait.Backoff{Duration: 10 * time.Millisecond}})
			eventually(t, "synced", func() bool { return w.Status().Synced })
			m.set(func() { m.refuse = status })
			eventually(t, "refused", func() bool { return w.Status().LastError != nil })
			err := w.Status().LastError
			if !test.is(err) || !strings.HasPrefix(err.Error(), `cannot watch the pods of node "one": no\x1b[31m!!!`) || !strings.HasSuffix(err.Error(), test.hint) && !strings.Contains(err.Error(), test.hint) || len(err.Error()) > 1000 {
				t.Errorf("%T %v", err, err)
			}
			if _, ok := w.Find("u1", ""); !ok || !w.Status().Synced {
				t.Error("the pod is forgotten")
			}
			m.set(func() { m.refuse = 0 })
			eventually(t, "available again", func() bool { return w.Status().LastError == nil })
			w.Close()
			if warnings, again := log.lines(slog.LevelWarn), log.lines(slog.LevelInfo); len(warnings) != 1 || len(again) != 1 || len(log.lines(slog.LevelError)) > 0 {
				t.Errorf("logged %q, then %q", warnings, again)
			}
			if text := printed(); text != "" {
				t.Errorf("stderr has %q", text)
			}
		})
	}
}

// captureStderr replaces stderr until the test ends. The function returns what was written.
func captureStderr(t *testing.T) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = before
		file.Close()
	})
	return func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
}

// TestUnavailable starts Watchers without a server, and with one that does not answer. They must end at once when they are closed.
func TestUnavailable(t *testing.T) {
	m := newMock(t)
	m.hang = true
	w := watchMock(t, m, Options{})
	if s := w.Status(); s.Synced || s.LastError != nil {
		t.Errorf("status %+v", s)
	}
	eventually(t, "a request", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.agents) > 0
	})
	w.Close()

	log := &logged{}
	gone := newMock(t)
	gone.Close()
	w = watchMock(t, gone, Options{Log: log.logger()})
	eventually(t, "an error", func() bool { return w.Status().LastError != nil })
	if err := w.Status().LastError; !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	if lines := log.lines(slog.LevelDebug); len(lines) == 0 || strings.Contains(strings.Join(lines, ""), " Body\"") {
		t.Errorf("client-go logs %q", lines)
	}
	w.Close()
}

// TestOptions compares the errors of options that cannot work.
func TestOptions(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for want, opts := range map[string]Options{
		"set NODE_NAME": {}, "or set a kubeconfig": {Node: "one"}, "no such file": {Node: "one", Kubeconfig: "/nonexistent"},
	} {
		w, err := Start(t.Context(), opts)
		if err == nil {
			w.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "cannot watch pods: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
		if notInCluster := want == "or set a kubeconfig"; errors.Is(err, ErrNotInCluster) != notInCluster {
			t.Errorf("errors.Is(%v, ErrNotInCluster) = %v", err, !notInCluster)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w, err := Start(ctx, Options{Node: "one", Kubeconfig: testkube.WriteKubeconfig(t, "http://127.0.0.1:1", "", "")})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if s := w.Status(); s.LastError != nil {
		t.Error(s.LastError)
	}
}
