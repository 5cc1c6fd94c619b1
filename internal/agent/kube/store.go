package kube

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// maxPods is how many pods are kept. Kubernetes itself recommends at most 110 on a node.
const maxPods = 2000

// A store keeps the pods that the reflector receives, for lookups.
type store struct {
	node     string
	changed  func(podUID string)
	replaced func() // called when all pods have been received
	log      *slog.Logger

	mu         sync.RWMutex
	synced     bool
	omitted    int               // of the entries
	refused    int               // pods that are not kept, since the last complete list
	pods       map[string]*entry // by UID in the API
	static     map[string]*entry // by UID of cgroups, where it is another one
	containers map[string]*entry // by ID
}

var (
	_ cache.ReflectorStore    = (*store)(nil)
	_ cache.TransformingStore = (*store)(nil)
)

func newStore(opts Options, replaced func()) *store {
	return &store{node: opts.Node, changed: opts.Changed, replaced: replaced, log: opts.Log,
		pods: map[string]*entry{}, static: map[string]*entry{}, containers: map[string]*entry{}}
}

func (s *store) status() Status {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return Status{Synced: s.synced, Pods: len(s.pods), Omitted: s.omitted + s.refused}
}

func (s *store) find(podUID, containerID string) (Pod, bool) {
	id := withoutRuntime(containerID)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.containers[id]
	if e == nil {
		e = s.pods[podUID]
	}
	if e == nil {
		e = s.static[podUID] // after the others: any user can set the annotation
	}
	if e == nil {
		return Pod{}, false
	}
	pod := e.pod
	pod.Container = e.containers[id]
	return pod, true
}

// Transformer implements cache.TransformingStore.
func (s *store) Transformer() cache.TransformFunc { return trim }

// Add implements cache.ReflectorStore.
func (s *store) Add(obj any) error {
	p, ok := obj.(*corev1.Pod)
	if !ok || p.Spec.NodeName != s.node {
		return nil
	}
	s.mu.Lock()
	before := s.pods[string(p.UID)]
	now := s.set(p)
	s.mu.Unlock()
	s.report(before, now)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *store) Delete(obj any) error {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	s.mu.Lock()
	before := s.pods[string(p.UID)]
	s.remove(before)
	s.mu.Unlock()
	s.report(before, nil)
	return nil
}

// Replace implements cache.ReflectorStore: the list is all pods.
func (s *store) Replace(list []any, _ string) error {
	s.mu.Lock()
	before := maps.Clone(s.pods)
	for _, e := range before {
		s.remove(e)
	}
	s.refused = 0
	for _, obj := range list {
		if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName == s.node {
			s.set(p)
		}
	}
	now := maps.Clone(s.pods)
	first := !s.synced
	s.synced = true
	s.mu.Unlock()

	s.replaced()
	if first && len(now) == 0 {
		s.log.Warn("the node has no pods: check that NODE_NAME is its name in Kubernetes", "node", s.node)
	}
	for uid, e := range before {
		s.report(e, now[uid])
		delete(now, uid)
	}
	for _, uid := range slices.Sorted(maps.Keys(now)) {
		s.report(nil, now[uid])
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *store) Resync() error { return nil }

// set puts a pod in place of its older state. It returns nil if the pod is not kept.
func (s *store) set(p *corev1.Pod) *entry {
	s.remove(s.pods[string(p.UID)])
	e, ok := newEntry(p)
	if !ok || len(s.pods) == maxPods {
		s.refused++
		return nil
	}
	s.pods[e.pod.UID] = e
	s.omitted += e.omitted
	if e.cgroupUID != e.pod.UID && s.static[e.cgroupUID] == nil {
		s.static[e.cgroupUID] = e
	}
	for id := range e.containers {
		s.containers[id] = e
	}
	return e
}

func (s *store) remove(e *entry) {
	if e == nil {
		return
	}
	delete(s.pods, e.pod.UID)
	s.omitted -= e.omitted
	if s.static[e.cgroupUID] == e {
		delete(s.static, e.cgroupUID)
	}
	for id := range e.containers {
		if s.containers[id] == e {
			delete(s.containers, id)
		}
	}
}

// report calls changed if a pod is not what it was.
func (s *store) report(before, now *entry) {
	if before != nil && (now == nil || now.cgroupUID != before.cgroupUID) {
		s.changed(before.cgroupUID)
	}
	if now != nil && !reflect.DeepEqual(before, now) {
		s.changed(now.cgroupUID)
	}
}
