// Package testkube runs the control plane of Kubernetes that tests of the node agent require: the API server, with Debian's etcd.
//
// The central type is [Server]. Tests write nodes, pods and their status through the API, as the kubelet would: there is no kubelet,
// scheduler or controller. Package containertest makes the cgroups that the kubelet and a container runtime would make.
//
// The API server is built from the module in the directory apiserver, which requires the source code of Kubernetes, and is kept in the
// user's cache directory by package realtarget. Building it takes 6 to 20 minutes of processor time and some GB of disk, so only
// `make kube` runs the tests that need it.
package testkube
