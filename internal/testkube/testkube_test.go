package testkube_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loupe-go/loupe/internal/testkube"
)

// TestServer writes a pod and reads it.
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
	var read corev1.Pod
	s.Do(http.MethodGet, "/api/v1/namespaces/default/pods/web", nil, &read)
	if read.UID == "" || read.UID != pod.UID || read.Spec.NodeName != "one" || len(read.Labels) != 0 || read.Annotations["loupe.dev/observe"] != "true" ||
		read.Status.Phase != corev1.PodRunning || len(read.Status.ContainerStatuses) != 1 || read.Status.ContainerStatuses[0].ContainerID != "containerd://abc" {
		t.Errorf("the pod is %+v", read)
	}
}
