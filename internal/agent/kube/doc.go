// Package kube knows the pods of one Kubernetes node: which pod and container a process belongs to, what created the pod, and its labels
// and annotations.
//
// The central type is [Watcher]. It watches the API server for the pods of the node, with a reflector of client-go, and keeps what
// [Pod] has. It requires the verbs list and watch on pods, and nothing else. Processes are matched by the ID of their container or the
// UID of their pod, which are in the paths of their cgroups.
//
// What the API server sends is bounded before it is kept: names, labels and values that Kubernetes itself would not permit are
// omitted, and counted in [Status].
package kube
