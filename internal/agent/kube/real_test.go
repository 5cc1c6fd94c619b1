package kube

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/loupe-go/loupe/internal/container"
	"github.com/loupe-go/loupe/internal/container/containertest"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testkube"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// permissions are all that a Watcher requires.
var permissions = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}}

// TestAPIServer watches the pods of a node at a real API server, with the permissions of a service account.
func TestAPIServer(t *testing.T) {
	s := testkube.Start(t)
	s.CreateNode("one")
	s.CreateNode("two")
	s.CreateNamespace("shop")
	s.Grant("agent", permissions)
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, token, s.Token("agent", time.Hour))
	web := s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-7d4b-x", Labels: map[string]string{"pod-template-hash": "7d4b"},
		OwnerReferences: []metav1.OwnerReference{owner("ReplicaSet", "web-7d4b")}}, Spec: corev1.PodSpec{NodeName: "one"}})
	s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Spec: corev1.PodSpec{NodeName: "two"}, Status: running("foreign")})
	s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "done"}, Spec: corev1.PodSpec{NodeName: "one"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}})

	changes, log := make(chan string, 1000), &logged{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", log.text.String())
		}
	})
	w := start(t, Options{Node: "one", Kubeconfig: s.Kubeconfig(token), Changed: func(uid string) { changes <- uid }, Log: log.logger()})
	uid := string(web.UID)
	await(t, changes, uid)
	if p, ok := w.Find(uid, "abc"); !ok || p.Namespace != "shop" || p.Name != "web-7d4b-x" || p.Workload != "web" || p.WorkloadKind != "Deployment" || p.Container != "" {
		t.Errorf("found %v %+v", ok, p)
	}
	web.Status = running("abc")
	s.UpdatePodStatus(web)
	await(t, changes, uid)
	if p, _ := w.Find("", "containerd://abc"); p.UID != uid || p.Container != "main" {
		t.Errorf("found %+v", p)
	}
	s.SetLabels(web, map[string]any{"tier": "front"}, map[string]any{"loupe.dev/observe": "false", "example.com/x": "y"})
	await(t, changes, uid)
	if p, _ := w.Find("", "abc"); p.Labels["tier"] != "front" || p.Annotations["loupe.dev/observe"] != "false" || len(p.Annotations) != 1 {
		t.Errorf("found %+v", p)
	}
	s.SetLabels(web, nil, map[string]any{"loupe.dev/observe": nil})
	await(t, changes, uid)
	if p, _ := w.Find("", "abc"); len(p.Annotations) != 0 {
		t.Errorf("found %+v", p)
	}
	if _, ok := w.Find("", "foreign"); ok || w.Status().Pods != 1 {
		t.Errorf("found a pod of another node, or one that has ended: %+v", w.Status())
	}

	t.Run("in a pod", func(t *testing.T) { watchInPod(t, s, token) })
	t.Run("processes", func(t *testing.T) { findProcesses(t, s, token) })
	denied, expired := watchDenied(t, s), watchExpired(t, s)
	s.Kill()
	late := start(t, Options{Node: "one", Kubeconfig: s.Kubeconfig(token), backoff: quick})
	eventually(t, "unavailable", func() bool { return w.Status().LastError != nil && late.Status().LastError != nil })
	if p, ok := w.Find("", "abc"); !ok || p.Name != web.Name || !w.Status().Synced {
		t.Errorf("the pod is forgotten: %v %+v", ok, w.Status())
	}
	s.Restart()
	next := s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: corev1.PodSpec{NodeName: "one"}})
	await(t, changes, string(next.UID))
	s.DeletePod(web)
	await(t, changes, uid)
	if _, ok := w.Find(uid, "abc"); ok || w.Status().Pods != 1 || w.Status().LastError != nil {
		t.Errorf("status %+v after the end of the pod", w.Status())
	}
	next.Status.Phase = corev1.PodSucceeded
	s.UpdatePodStatus(next)
	await(t, changes, string(next.UID))
	if w.Status().Pods != 0 {
		t.Errorf("status %+v after the pod has succeeded", w.Status())
	}
	if len(log.lines(slog.LevelWarn)) == 0 || len(log.lines(slog.LevelInfo)) == 0 {
		t.Errorf("logged %q", log.text.String())
	}
	s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "last"}, Spec: corev1.PodSpec{NodeName: "one"}})

	s.Regrant("denied", permissions)
	writeToken(t, expired.token, s.Token("agent", time.Hour))
	for _, w := range []*Watcher{denied, expired.Watcher, late} {
		eventually(t, "access", func() bool { return w.Status().Synced && w.Status().LastError == nil })
		if w.Status().Pods != 1 {
			t.Errorf("status %+v", w.Status())
		}
	}
}

// podVariable is set in a process that has the environment and the files of a pod.
const podVariable = "LOUPE_KUBE_IN_POD"

// watchInPod starts this program as in a pod: the files of the service account are where the kubelet mounts them.
func watchInPod(t *testing.T, s *testkube.Server, token string) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to mount the files of the service account")
	}
	const script = `mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && cd /run/secrets/kubernetes.io/serviceaccount &&
		cp "$1" token && cp "$2" ca.crt && exec "$3"`
	host, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "https://"), ":")
	cmd := testcmd.Command(t, "unshare", "--mount", "sh", "-c", script, "sh", token, s.CAFile(), os.Args[0])
	cmd.Env = append(os.Environ(), podVariable+"=1", "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	if status, stdout, stderr := testcmd.Run(t, cmd); status != 0 || stdout != "web of Deployment\n" || stderr != "" {
		t.Errorf("status %d, printed %q and %q", status, stdout, stderr)
	}
}

// beInPod prints the workload of a container, as soon as it is known.
func beInPod() error {
	found := make(chan struct{}, 1)
	w, err := Start(context.Background(), Options{Node: "one", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Changed: func(string) { found <- struct{}{} }})
	if err != nil {
		return err
	}
	defer w.Close()
	<-found
	p, _ := w.Find("", "abc")
	_, err = fmt.Println(p.Workload, "of", p.WorkloadKind)
	return err
}

// findProcesses finds the pods of processes that are in the cgroups of containers.
func findProcesses(t *testing.T, s *testkube.Server, token string) {
	s.CreateNode("three")
	exe := testtarget.Build(t, testtarget.Spec{Program: "tiny"})
	id, earlyID, staticID, hash := containertest.NewID(), containertest.NewID(), containertest.NewID(), containertest.NewID()[:32]
	pod := s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{NodeName: "three"}, Status: running(id)})
	s.CreatePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "etcd-three", Annotations: map[string]string{annotationHash: hash, annotationMirror: hash},
		OwnerReferences: []metav1.OwnerReference{owner("Node", "three")}}, Spec: corev1.PodSpec{NodeName: "three"}, Status: running(staticID)})
	w := start(t, Options{Node: "three", Kubeconfig: s.Kubeconfig(token)})
	eventually(t, "synced", func() bool { return w.Status().Synced })

	uid := string(pod.UID)
	for _, test := range []struct {
		name                     string
		cgroup                   *containertest.Cgroup
		pod, container, workload string
	}{
		{"containerd", containertest.Container(t, uid, id), "web", "main", "web"},
		{"before the status has the container", containertest.Container(t, uid, earlyID), "web", "", "web"},
		{"cgroup v1", containertest.NewV1(t, "kubepods/burstable/pod"+uid+"/"+id), "web", "main", "web"},
		{"static pod", containertest.Container(t, hash, staticID), "etcd-three", "main", "etcd"},
		{"static pod before its status", containertest.Container(t, hash, containertest.NewID()), "etcd-three", "", "etcd"},
		{"pod of another node", containertest.Container(t, containertest.NewUID(), containertest.NewID()), "", "", ""},
	} {
		if test.cgroup == nil {
			t.Logf("this machine has no %s", test.name)
			continue
		}
		p := testtarget.Start(t, exe)
		test.cgroup.Add(t, p.PID())
		ref, err := container.Of(p.PID())
		if err != nil {
			t.Fatal(err)
		}
		found, ok := w.Find(ref.PodUID, ref.ID)
		if ok != (test.pod != "") || found.Name != test.pod || found.Container != test.container || found.Workload != test.workload {
			t.Errorf("%s: %+v is %v %+v", test.name, ref, ok, found)
		}
		p.Stop()
	}
}

// watchDenied starts a Watcher without permissions.
func watchDenied(t *testing.T, s *testkube.Server) *Watcher {
	t.Helper()
	s.Grant("denied", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}})
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, token, s.Token("denied", time.Hour))
	log := &logged{}
	w := start(t, Options{Node: "one", Kubeconfig: s.Kubeconfig(token), Log: log.logger(), backoff: quick})
	eventually(t, "denied", func() bool { return w.Status().LastError != nil })
	const want = `cannot watch the pods of node "one": pods is forbidden: User "system:serviceaccount:default:denied" cannot list resource "pods" ` +
		`in API group "" at the cluster scope: grant list and watch on pods to it by a ClusterRole`
	if err := w.Status().LastError; err.Error() != want || !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	if lines := log.lines(slog.LevelWarn); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
	return w
}

// An expiredWatcher has the file of its token.
type expiredWatcher struct {
	*Watcher
	token string
}

// watchExpired starts a Watcher whose token has expired.
func watchExpired(t *testing.T, s *testkube.Server) expiredWatcher {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	writeToken(t, token, s.Token("agent", -time.Minute))
	w := start(t, Options{Node: "one", Kubeconfig: s.Kubeconfig(token), backoff: quick})
	eventually(t, "expired", func() bool { return w.Status().LastError != nil })
	if err := w.Status().LastError; !apierrors.IsUnauthorized(err) || !strings.Contains(err.Error(), "the token is invalid or has expired") {
		t.Error(err)
	}
	return expiredWatcher{w, token}
}

// quick is a backoff for tests that wait until access is granted.
var quick = &wait.Backoff{Duration: 200 * time.Millisecond}

func writeToken(t *testing.T, file, token string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

func owner(kind, name string) metav1.OwnerReference {
	controls := true
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "7d3f2c1a-0b5e-4c3d-9a8b-1f2e3d4c5b6a", Controller: &controls}
}

// running is the status of a pod that has a container "main".
func running(id string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://" + id}}}
}
