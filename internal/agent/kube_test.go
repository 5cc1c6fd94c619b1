package agent

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/container/containertest"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testkube"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A workload is a pod that was created through the API, and the process of its container.
type workload struct {
	*testtarget.Process
	pod *corev1.Pod
	pid string
}

// startWorkload creates a pod of a ReplicaSet on the node "one", and starts a process in its cgroup, as a container runtime does: the
// process is there when it executes the program.
func startWorkload(t *testing.T, s *testkube.Server, exe, namespace, name string) *workload {
	t.Helper()
	controls, id := true, containertest.NewID()
	hash := "7d4b"
	pod := s.CreatePod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-" + hash + "-x", Labels: map[string]string{"pod-template-hash": hash},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name + "-" + hash,
				UID: "7d3f2c1a-0b5e-4c3d-9a8b-1f2e3d4c5b6a", Controller: &controls}}},
		Spec: corev1.PodSpec{NodeName: "one"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://" + id}}}})
	cgroup := containertest.Container(t, string(pod.UID), id)
	cmd := testcmd.Within(t, 0, "sh", "-c", `echo $$ >"$1" && exec "$2"`, "sh", cgroup.Procs(), exe)
	p := testtarget.StartCmd(t, cmd)
	return &workload{p, pod, fmt.Sprint(p.PID())}
}

// TestAgentKubernetes observes processes in the cgroups of pods that are created through the API server of Kubernetes. The permissions are
// those of the manifests.
func TestAgentKubernetes(t *testing.T) {
	s := testkube.Start(t)
	s.CreateNode("one")
	s.CreateNamespace("shop")
	s.CreateNamespace("other")
	s.Grant("agent", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(s.Token("agent", time.Hour)), 0o600); err != nil {
		t.Fatal(err)
	}
	exe := ownColony(t)
	web := startWorkload(t, s, exe, "shop", "web")
	refused := startWorkload(t, s, exe, "shop", "kube-proxy")
	elsewhere := startWorkload(t, s, exe, "other", "web")
	outside := testtarget.Start(t, exe)
	a := run(t, fmt.Sprintf(`
node: one
kubernetes: {kubeconfig: %s}
targets: {include_namespaces: [shop], exclude_pods: ["kube-*"], binary_patterns: ["%s"]}
sampling: {max_target_overhead: 50%%}
`, s.Kubeconfig(token), exe))

	a.await(atLeast(1), metric.Goroutines, "namespace", "shop", "pod", web.pod.Name, "container", "main", "pid", web.pid)
	a.await(equals(1), metric.Info, "pid", web.pid, "workload", "web", "workload_kind", "Deployment", "node", "one", "service", "web")
	a.await(equals(1), metric.Targets, "status", statusObserved)
	a.await(atLeast(3), metric.Targets, "status", statusExcluded)
	for _, pid := range []string{refused.pid, elsewhere.pid, fmt.Sprint(outside.PID())} {
		if a.scrape(metric.Info, "pid", pid) != 0 {
			t.Errorf("process %s is observed", pid)
		}
	}
	late := startWorkload(t, s, exe, "shop", "late")
	a.await(atLeast(1), metric.Goroutines, "pod", late.pod.Name, "container", "main", "pid", late.pid)

	annotate := func(w *workload, name string, value any) {
		s.SetLabels(w.pod, nil, map[string]any{"loupe.dev/" + name: value})
	}
	a.await(equals(3), metric.Level, "pid", web.pid, "engine", "uprobe")
	annotate(web, "engine", "inline")
	a.await(equals(3), metric.Level, "pid", web.pid, "engine", "inline")
	annotate(web, "engine", nil)
	a.await(equals(3), metric.Level, "pid", web.pid, "engine", "uprobe")
	annotate(web, "observe", "false")
	a.await(equals(0), metric.Info, "pid", web.pid)
	annotate(web, "observe", "true")
	a.await(equals(1), metric.Info, "pid", web.pid, "pod", web.pod.Name)
	for range 5 { // quicker than an observation begins or ends
		annotate(web, "observe", "false")
		annotate(web, "observe", "true")
	}
	a.await(equals(3), metric.Level, "pid", web.pid, "engine", "uprobe")
	annotate(elsewhere, "observe", "true") // has precedence over include_namespaces
	a.await(equals(1), metric.Info, "pid", elsewhere.pid, "namespace", "other")

	awaitReady := func(status int, contains string) {
		t.Helper()
		for deadline := time.Now().Add(testcmd.Patience); ; time.Sleep(50 * time.Millisecond) {
			got, body := a.get(a.health, "/readyz")
			if got == status && strings.Contains(body, contains) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz is %d: %s", got, body)
			}
		}
	}
	awaitReady(http.StatusOK, "")
	s.Kill()
	awaitReady(http.StatusServiceUnavailable, "pods are not up to date")
	if a.scrape(metric.Info, "pid", web.pid, "pod", web.pod.Name) != 1 || a.scrape(metric.Targets, "status", statusObserved) != 3 {
		t.Error("targets are forgotten while the API server is unavailable")
	}
	s.Restart()
	awaitReady(http.StatusOK, "")

	s.DeletePod(web.pod)
	a.await(equals(0), metric.Info, "pid", web.pid)
	late.Kill()
	a.await(equals(1), metric.Targets, "status", statusObserved)
	if web.Command("num") == "" {
		t.Error("the target does not work any more")
	}
}
