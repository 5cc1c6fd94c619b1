// Package testkube runs the control plane of Kubernetes that tests of the node agent require: the API server, with Debian's etcd.
//
// The central type is [Server]. Tests write nodes, pods and their status through the API, as the kubelet would: there is no kubelet,
// scheduler or controller. Package containertest makes the cgroups that the kubelet and a container runtime would make.
//
// The API server is built from the module in the directory apiserver, which requires the source code of Kubernetes, and is kept in the
// user's cache directory by package realtarget. Building it takes about six minutes of processor time and some GB of disk, so tests that
// need it run only with RELEASES=all; `make kube` builds it before.
package testkube
