package deploy

import (
	"net/http"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loupe-go/loupe/internal/testkube"
)

// paths are the resources of the API by the kind of their objects.
var paths = map[string]string{
	"Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/loupe/serviceaccounts",
	"ConfigMap": "/api/v1/namespaces/loupe/configmaps", "Service": "/api/v1/namespaces/loupe/services",
	"DaemonSet":     "/apis/apps/v1/namespaces/loupe/daemonsets",
	"NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/loupe/networkpolicies",
	"ClusterRole":   "/apis/rbac.authorization.k8s.io/v1/clusterroles", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}

// TestManifestsAccepted creates the objects of the plain manifests, and a pod as the DaemonSet's controller would, by the API server of
// Kubernetes. It validates them, and admits the pod by the level of Pod Security of the namespace.
func TestManifestsAccepted(t *testing.T) {
	server := testkube.Start(t)
	text, err := os.ReadFile("kubernetes/loupe-agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(string(text))
	if err != nil {
		t.Fatal(err)
	}
	const strict = "?fieldValidation=Strict"
	for _, o := range objects {
		server.Do(http.MethodPost, paths[o.GetObjectKind().GroupVersionKind().Kind]+strict, o, nil)
		if set, ok := o.(*appsv1.DaemonSet); ok {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: set.Spec.Template.Labels}, Spec: set.Spec.Template.Spec}
			var created corev1.Pod
			server.Do(http.MethodPost, "/api/v1/namespaces/loupe/pods"+strict, pod, &created)
			if got := created.Spec.Containers[0].SecurityContext; !created.Spec.HostPID || got == nil || got.AppArmorProfile == nil {
				t.Errorf("the server has changed the pod: %+v", created.Spec)
			}
		}
	}
}
