package kube

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestWorkload compares what created pods, by the names that the controllers of Kubernetes give.
func TestWorkload(t *testing.T) {
	created := time.Date(2026, 11, 27, 12, 0, 30, 0, time.UTC)
	scheduled := fmt.Sprint(created.Unix() / 60)
	for _, test := range []struct {
		kind, owner, hash string
		name, wantKind    string
	}{
		{"", "", "", "web-0", "Pod"},
		{"ReplicaSet", "web-5d4f8c7b9", "5d4f8c7b9", "web", "Deployment"},
		{"ReplicaSet", "shop-web-5d4f8c7b9", "5d4f8c7b9", "shop-web", "Deployment"},
		{"ReplicaSet", "web-69b6795bb4", "69b6795bb4", "web", "Rollout"},
		{"ReplicaSet", "web", "", "web", "ReplicaSet"},
		{"ReplicaSet", "web-", "", "web-0", "Pod"}, // an invalid name
		{"ReplicaSet", "web-1", "5d4f8c7b9", "web-1", "ReplicaSet"},
		{"ReplicaSet", "-5d4f8c7b9", "5d4f8c7b9", "web-0", "Pod"}, // an invalid name
		{"StatefulSet", "web", "", "web", "StatefulSet"},
		{"DaemonSet", "agent", "", "agent", "DaemonSet"},
		{"Job", "backup-" + scheduled, "", "backup", "CronJob"},
		{"Job", "backup-20261127", "", "backup-20261127", "Job"}, // a date
		{"Job", "backup-1", "", "backup-1", "Job"},
		{"Job", "backup", "", "backup", "Job"},
		{"Job", scheduled, "", scheduled, "Job"},
		{"Node", "0", "", "web", "Pod"},
		{"Custom", "thing", "", "thing", "Custom"},
		{"Evil\n", "thing", "", "web-0", "Pod"},
		{"Custom", strings.Repeat("x", 64<<10), "", "web-0", "Pod"},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", CreationTimestamp: metav1.NewTime(created)}}
		if test.kind != "" {
			controls := true
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Ignored", Name: "other"}, {Kind: test.kind, Name: test.owner, Controller: &controls}}
		}
		if test.hash != "" {
			p.Labels = map[string]string{"pod-template-hash": test.hash}
		}
		if test.wantKind == "Rollout" {
			p.Labels = map[string]string{"rollouts-pod-template-hash": test.hash}
		}
		if name, kind := workload(p); name != test.name || kind != test.wantKind {
			t.Errorf("%.20q of kind %q: %q %q, want %q %q", test.owner, test.kind, name, kind, test.name, test.wantKind)
		}
	}
}

// TestTrim compares the entry of a whole pod with that of the trimmed one, which has little else.
func TestTrim(t *testing.T) {
	p := runningPod("web", "u1")
	p.Labels = map[string]string{"app": "web"}
	p.Annotations = map[string]string{"loupe.dev/spans": "true", "kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 1<<20),
		annotationHash: "h", annotationMirror: "h"}
	controls := true
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "one", Controller: &controls}, {Kind: "Other", Name: "x"}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1<<20))}}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "setup", ContainerID: "docker://u1-setup", Image: "example.com/setup"}}
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", ContainerID: "cri-o://u1-debug"}, {Name: "waiting"}}
	whole, ok := newEntry(p)
	if !ok {
		t.Fatal("no entry")
	}
	if want := map[string]string{"u1-main": "main", "u1-setup": "setup", "u1-debug": "debug"}; !reflect.DeepEqual(whole.containers, want) {
		t.Errorf("containers %v, want %v", whole.containers, want)
	}
	trimmed, err := trim(p)
	if err != nil {
		t.Fatal(err)
	}
	small := trimmed.(*corev1.Pod)
	if e, _ := newEntry(small); !reflect.DeepEqual(e, whole) {
		t.Errorf("%+v, want %+v", e, whole)
	}
	if n := small.Size(); n > 1000 {
		t.Errorf("the trimmed pod has %d bytes", n)
	}
	if len(small.ManagedFields) > 0 || len(small.Spec.Containers) > 0 || small.Spec.NodeName != "one" || small.Status.Phase != corev1.PodRunning {
		t.Errorf("trimmed pod %+v", small)
	}
}

// TestStaticPods finds static pods by the UID of their cgroups, which the API has as an annotation that any user can set.
func TestStaticPods(t *testing.T) {
	var changed []string
	s := newStore(Options{Node: "one", Changed: func(uid string) { changed = append(changed, uid) }, Log: slog.New(slog.DiscardHandler)}, func() {})
	mirror := func(name, uid, hash string) *corev1.Pod {
		p := runningPod(name, uid)
		p.Annotations = map[string]string{annotationHash: hash, annotationMirror: hash}
		return p
	}
	static, victim := mirror("etcd-one", "u1", "hash1"), runningPod("victim", "u2")
	for _, p := range []*corev1.Pod{static, victim, mirror("thief", "u3", "hash1"), mirror("other-thief", "u4", "u2")} {
		_ = s.Add(p)
	}
	for uid, want := range map[string]string{"hash1": "etcd-one", "u1": "etcd-one", "u2": "victim", "u3": "thief"} {
		if p, _ := s.find(uid, ""); p.Name != want {
			t.Errorf("found %q by %s, want %q", p.Name, uid, want)
		}
	}
	// The kubelet creates the pod again under the same name.
	_ = s.Delete(static)
	_ = s.Replace([]any{victim, mirror("etcd-one", "u5", "hash1")}, "")
	if p, _ := s.find("hash1", ""); p.UID != "u5" {
		t.Errorf("found %+v", p)
	}
	changed = nil
	_ = s.Update(runningPod("etcd-one", "u5")) // it has another UID of cgroups now
	if want := []string{"hash1", "u5"}; !reflect.DeepEqual(changed, want) {
		t.Errorf("changed %q, want %q", changed, want)
	}
	if len(s.static) != 0 || len(s.pods) != 2 || len(s.containers) != 2 || s.status().Omitted != 0 {
		t.Errorf("the store has %+v", s)
	}
}

// TestBounds gives a store what Kubernetes would not permit. It must be omitted and counted, and no longer counted when it is gone.
func TestBounds(t *testing.T) {
	s := newStore(Options{Node: "one", Changed: func(string) {}, Log: slog.New(slog.DiscardHandler)}, func() {})
	p := runningPod("web", "u1")
	p.Labels = map[string]string{"app": "web", "long": strings.Repeat("x", 64<<10), "new\nline": "x", "key": "a\x1b[31m", strings.Repeat("k", 64<<10): "x", "": "x"}
	p.Annotations = map[string]string{"loupe.dev/observe": "true", "loupe.dev/long": strings.Repeat("x", 64<<10), "loupe.dev/control": "a\nb", "loupe.dev/": "x",
		"loupe.dev/invalid": "\xff", "other": strings.Repeat("x", 64<<10)}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "bad\nname", ContainerID: "containerd://c1"},
		corev1.ContainerStatus{Name: "long", ContainerID: "containerd://" + strings.Repeat("0", 64<<10)})
	_ = s.Add(p)
	found, _ := s.find("u1", "u1-main")
	if !reflect.DeepEqual(found.Labels, map[string]string{"app": "web"}) || !reflect.DeepEqual(found.Annotations, map[string]string{"loupe.dev/observe": "true"}) {
		t.Errorf("found %+v", found)
	}
	if n := s.status().Omitted; n != 5+4+2 {
		t.Errorf("omitted %d", n)
	}
	for i := range 1000 {
		metav1.SetMetaDataLabel(&p.ObjectMeta, fmt.Sprint("label-", i), "x")
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, fmt.Sprint("loupe.dev/a-", i), "x")
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: "c", ContainerID: fmt.Sprint("docker://c-", i)})
	}
	_ = s.Update(p)
	found, _ = s.find("u1", "u1-main")
	if n := s.status().Omitted; len(found.Labels) != maxLabels || len(found.Annotations) != maxAnnotations || len(s.containers) != maxContainers ||
		n != 3000+1+1+1+5+4+2-maxLabels-maxAnnotations-maxContainers {
		t.Errorf("%d labels, %d annotations, %d containers; omitted %d", len(found.Labels), len(found.Annotations), len(s.containers), n)
	}
	_ = s.Delete(p)
	if len(s.pods)+len(s.containers)+s.status().Omitted != 0 {
		t.Errorf("the store has %+v", s)
	}

	for _, bad := range []*corev1.Pod{runningPod("a\nb", "u2"), runningPod("web", "u\n3"), runningPod("web", ""), runningPod(strings.Repeat("x", 64<<10), "u4")} {
		_ = s.Add(bad)
	}
	if st := s.status(); st.Pods != 0 || st.Omitted != 4 {
		t.Errorf("status %+v", st)
	}
	for i := range maxPods + 10 {
		_ = s.Add(runningPod(fmt.Sprint("web-", i), fmt.Sprint("u-", i)))
	}
	if st := s.status(); st.Pods != maxPods || st.Omitted != 4+10 {
		t.Errorf("status %+v", st)
	}
	_ = s.Replace(nil, "")
	if st := s.status(); st.Pods != 0 || st.Omitted != 0 {
		t.Errorf("status %+v", st)
	}
}

// FuzzEntry checks that nothing of an entry can break an output, whatever the API server sends.
func FuzzEntry(f *testing.F) {
	f.Add("default", "web", "u1", "app", "web", "loupe.dev/observe", "true", "main", "containerd://abc", "ReplicaSet", "web-1")
	f.Add("\n", "-", "\x00", "a/b/c", "\xff", "loupe.dev/", "\x1b", "..", "://://", "Job", "-1")
	f.Fuzz(func(t *testing.T, namespace, name, uid, key, value, annotation, setting, container, id, kind, owner string) {
		controls := true
		e, ok := newEntry(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: map[string]string{key: value},
				Annotations:     map[string]string{annotation: setting, annotationHash: id, annotationMirror: id},
				OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: owner, Controller: &controls}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: container, ContainerID: id}}},
		})
		if !ok {
			return
		}
		p := e.pod
		texts := []string{p.Namespace, p.Name, p.UID, p.Workload, p.WorkloadKind, e.cgroupUID}
		for _, list := range []map[string]string{p.Labels, p.Annotations, e.containers} {
			for key, value := range list {
				texts = append(texts, key, value)
			}
		}
		for _, text := range texts {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || len(text) > maxKey {
				t.Errorf("%q in %+v", text, e)
			}
		}
		if p.Namespace == "" || p.Name == "" || p.UID == "" || p.Workload == "" || p.WorkloadKind == "" {
			t.Errorf("something is empty in %+v", p)
		}
	})
}
