// Package container finds the container and the Kubernetes pod that a process belongs to, and the processes of a container or pod.
//
// The central type is [Ref]. [Of] reads it from /proc/PID/cgroup: container runtimes name a cgroup after each container, and the
// kubelet names the cgroup above it after the pod. [Pods] reads the names of pods from the directory in which the kubelet keeps
// their logs. Neither a container runtime nor the Kubernetes API is asked.
package container
