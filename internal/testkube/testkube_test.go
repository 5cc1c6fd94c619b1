package testkube_test

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loupe-go/loupe/internal/testkube"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestServer writes a pod and reads it after the server was killed and started again.
func TestServer(t *testing.T) {
	s := testkube.Start(t)
	s.CreateNode("one")
	pod := s.CreatePod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "one"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", ContainerID: "containerd://abc"}}},
	})
	s.SetLabels(pod, map[string]any{"app": nil}, map[string]any{"loupe.dev/observe": "true"})
	s.Kill()
	s.Restart()
	var read corev1.Pod
	s.Do(http.MethodGet, "/api/v1/namespaces/default/pods/web", nil, &read)
	if read.UID == "" || read.UID != pod.UID || read.Spec.NodeName != "one" || len(read.Labels) != 0 || read.Annotations["loupe.dev/observe"] != "true" ||
		read.Status.Phase != corev1.PodRunning || len(read.Status.ContainerStatuses) != 1 || read.Status.ContainerStatuses[0].ContainerID != "containerd://abc" {
		t.Errorf("the pod is %+v", read)
	}
}

// TestContainer puts a process into cgroups, and compares what the kernel says with the paths that Kubernetes uses.
func TestContainer(t *testing.T) {
	const uid, id = "7d3f2c1a-0b5e-4c3d-9a8b-1f2e3d4c5b6a", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, test := range []struct {
		container testkube.Container
		path      string
	}{
		{testkube.Container{PodUID: uid, ID: id, Runtime: "containerd", Burstable: true},
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d3f2c1a_0b5e_4c3d_9a8b_1f2e3d4c5b6a.slice/cri-containerd-" + id + ".scope"},
		{testkube.Container{PodUID: uid, ID: id, Runtime: "crio"},
			"/kubepods.slice/kubepods-pod7d3f2c1a_0b5e_4c3d_9a8b_1f2e3d4c5b6a.slice/crio-" + id + ".scope"},
		{testkube.Container{PodUID: uid, ID: id, Cgroupfs: true, Burstable: true, Version1: true}, "/kubepods/burstable/pod" + uid + "/" + id},
	} {
		t.Run(test.path, func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
			test.container.Hold(t, p.PID())
			text, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/cgroup")
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), ":"+test.path+"\n") {
				t.Errorf("the cgroups of the process are\n%swant %s", text, test.path)
			}
		})
	}
}
