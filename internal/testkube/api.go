package testkube

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newClient returns a client that trusts the certificate that the server has made for itself.
func (s *Server) newClient() (*http.Client, error) {
	pem, err := os.ReadFile(s.CAFile())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the server has written no certificate yet")
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}, nil
}

// CAFile returns the file with the certificate by which clients verify the server.
func (s *Server) CAFile() string { return s.file("certs/apiserver.crt") }

// request sends an object as the administrator and returns the body of the response.
func (s *Server) request(method, path string, object any) ([]byte, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(s.tb.Context(), method, s.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.admin)
	request.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := s.web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, body)
	}
	return body, nil
}

// Do sends an object as the administrator, and stores the response in into unless it is nil.
func (s *Server) Do(method, path string, object, into any) {
	s.tb.Helper()
	body, err := s.request(method, path, object)
	if err == nil && into != nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// CreateNode creates a node.
func (s *Server) CreateNode(name string) {
	s.tb.Helper()
	s.Do(http.MethodPost, "/api/v1/nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
}

// CreateNamespace creates a namespace. "default" exists.
func (s *Server) CreateNamespace(name string) {
	s.tb.Helper()
	s.Do(http.MethodPost, "/api/v1/namespaces", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil)
}

// CreatePod creates a pod and then its status, if it has a phase or containers there, as the kubelet does. It returns the pod with its UID.
// A pod without containers has one of the name "main".
func (s *Server) CreatePod(pod *corev1.Pod) *corev1.Pod {
	s.tb.Helper()
	pod = pod.DeepCopy()
	if pod.Namespace == "" {
		pod.Namespace = "default"
	}
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/main"}}
	}
	created := &corev1.Pod{}
	s.Do(http.MethodPost, "/api/v1/namespaces/"+pod.Namespace+"/pods", pod, created)
	if pod.Status.Phase != "" || len(pod.Status.ContainerStatuses) > 0 {
		created.Status = pod.Status
		created = s.UpdatePodStatus(created)
	}
	return created
}

// UpdatePodStatus sets the status of a pod, and returns its new state.
func (s *Server) UpdatePodStatus(pod *corev1.Pod) *corev1.Pod {
	s.tb.Helper()
	s.patch(pod, "/status", map[string]any{"status": pod.Status})
	return pod
}

// SetLabels sets labels and annotations of a pod, besides those that it has. The values are strings, or nil to remove the key.
func (s *Server) SetLabels(pod *corev1.Pod, labels, annotations map[string]any) {
	s.tb.Helper()
	metadata := map[string]any{}
	if labels != nil {
		metadata["labels"] = labels
	}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	s.patch(pod, "", map[string]any{"metadata": metadata})
}

func (s *Server) patch(pod *corev1.Pod, subresource string, change any) {
	s.tb.Helper()
	s.Do(http.MethodPatch, podPath(pod)+subresource, change, pod)
}

// DeletePod deletes a pod at once, without the time that the kubelet would need to end its containers.
func (s *Server) DeletePod(pod *corev1.Pod) {
	s.tb.Helper()
	s.Do(http.MethodDelete, podPath(pod), metav1.NewDeleteOptions(0), nil)
}

func podPath(pod *corev1.Pod) string {
	return "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
}

// Grant creates a service account in the namespace "default" with the permissions of a ClusterRole.
func (s *Server) Grant(account string, rules []rbacv1.PolicyRule) {
	s.tb.Helper()
	meta := metav1.ObjectMeta{Name: account}
	s.Do(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", &corev1.ServiceAccount{ObjectMeta: meta}, nil)
	const rbac = "/apis/rbac.authorization.k8s.io/v1"
	s.Do(http.MethodPost, rbac+"/clusterroles", &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, nil)
	s.Do(http.MethodPost, rbac+"/clusterrolebindings", &rbacv1.ClusterRoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: "default"}},
	}, nil)
}

// Regrant replaces the permissions of a service account of [Server.Grant].
func (s *Server) Regrant(account string, rules []rbacv1.PolicyRule) {
	s.tb.Helper()
	s.Do(http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+account, map[string]any{"rules": rules}, nil)
}
