package kube

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A Pod is the pod of a process, and its container in it. Names, labels and annotations have no control characters and the lengths that
// Kubernetes permits.
type Pod struct {
	Namespace string
	Name      string
	UID       string // in the API; the cgroups of a static pod have another one
	Container string // empty if it is unknown

	Labels      map[string]string // must not be modified
	Annotations map[string]string // those that begin with "loupe.dev/"; must not be modified

	Workload     string // name of what created the pod, or of the pod itself
	WorkloadKind string // "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Pod" and so on
}

// AnnotationPrefix is how the annotations begin that are kept.
const AnnotationPrefix = "loupe.dev/"

// What a pod may have.
const (
	maxLabels          = 64
	maxAnnotations     = 32
	maxAnnotationValue = 256 // bytes
	maxContainers      = 256
	maxID              = 128 // bytes
)

// Annotations of the pods that the kubelet creates in the API for static pods.
const (
	annotationHash   = "kubernetes.io/config.hash" // the UID in the paths of cgroups
	annotationMirror = "kubernetes.io/config.mirror"
)

// trim returns a pod with what an entry requires. The reflector calls it for each pod that it receives with others, so that they need
// little memory.
func trim(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	small := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, CreationTimestamp: p.CreationTimestamp, Labels: p.Labels,
	}}
	for key, value := range p.Annotations {
		if strings.HasPrefix(key, AnnotationPrefix) || key == annotationHash || key == annotationMirror {
			metav1.SetMetaDataAnnotation(&small.ObjectMeta, key, value)
		}
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		small.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	small.Spec.NodeName, small.Status.Phase = p.Spec.NodeName, p.Status.Phase
	small.Status.InitContainerStatuses = trimStatuses(p.Status.InitContainerStatuses)
	small.Status.ContainerStatuses = trimStatuses(p.Status.ContainerStatuses)
	small.Status.EphemeralContainerStatuses = trimStatuses(p.Status.EphemeralContainerStatuses)
	return small, nil
}

func trimStatuses(list []corev1.ContainerStatus) []corev1.ContainerStatus {
	small := make([]corev1.ContainerStatus, len(list))
	for i := range list {
		small[i].Name, small[i].ContainerID = list[i].Name, list[i].ContainerID
	}
	return small
}

// An entry is what is kept of a pod.
type entry struct {
	pod        Pod
	cgroupUID  string            // in the paths of cgroups
	containers map[string]string // names by IDs
	omitted    int
}

// newEntry returns the entry of a pod. ok is false if its names are invalid.
func newEntry(p *corev1.Pod) (e *entry, ok bool) {
	if validation.IsDNS1123Label(p.Namespace) != nil || validation.IsDNS1123Subdomain(p.Name) != nil || !isID(string(p.UID)) {
		return nil, false
	}
	e = &entry{cgroupUID: string(p.UID), containers: map[string]string{}}
	e.pod = Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
	e.pod.Workload, e.pod.WorkloadKind = workload(p)
	if hash := p.Annotations[annotationHash]; hash == p.Annotations[annotationMirror] && isID(hash) {
		e.cgroupUID = hash
	}
	e.pod.Labels = e.keep(p.Labels, maxLabels, func(key, value string) bool {
		return len(value) <= validation.LabelValueMaxLength && validation.IsValidLabelValue(value) == nil
	})
	annotations := maps.Clone(p.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, AnnotationPrefix) })
	e.pod.Annotations = e.keep(annotations, maxAnnotations, func(_, value string) bool {
		return len(value) <= maxAnnotationValue && utf8.ValidString(value) && !strings.ContainsFunc(value, unicode.IsControl)
	})
	for _, list := range [][]corev1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses} {
		e.addContainers(list)
	}
	return e, true
}

// maxKey is the length of the longest key of labels and annotations: a domain, a slash, and a name.
const maxKey = validation.DNS1123SubdomainMaxLength + 1 + 63

// keep returns the valid ones of a pod's labels or annotations, at most a number of them, and counts the others.
func (e *entry) keep(all map[string]string, most int, valid func(key, value string) bool) map[string]string {
	kept := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if value := all[key]; len(kept) < most && len(key) <= maxKey && validation.IsQualifiedName(key) == nil && valid(key, value) {
			kept[key] = value
		} else {
			e.omitted++
		}
	}
	return kept
}

func (e *entry) addContainers(list []corev1.ContainerStatus) {
	for _, c := range list {
		id := withoutRuntime(c.ContainerID)
		switch {
		case id == "": // it is not started yet
		case !isID(id) || validation.IsDNS1123Label(c.Name) != nil || len(e.containers) == maxContainers:
			e.omitted++
		default:
			e.containers[id] = c.Name
		}
	}
}

// withoutRuntime returns a container's ID without the name of the runtime, as in "containerd://".
func withoutRuntime(id string) string {
	if i := strings.Index(id, "://"); i >= 0 {
		return id[i+len("://"):]
	}
	return id
}

// isID reports whether a text can be the ID of a container or a pod.
func isID(s string) bool {
	return s != "" && len(s) <= maxID && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.'
	})
}
