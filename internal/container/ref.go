package container

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// A Ref identifies the container that a process belongs to. The zero Ref is that of a process outside of containers. The fields have
// only hexadecimal digits and dashes, apart from Runtime, which is one of the constants or empty.
type Ref struct {
	ID      string // 64 hexadecimal digits; empty if the process belongs to no container, or if its cgroup does not have the ID
	Runtime string // empty if the name of the cgroup does not say which runtime created it
	PodUID  string // of the Kubernetes pod, in the form of the API; empty outside of pods
}

// The runtimes, named as in the container IDs of the Kubernetes API ("containerd://ID").
const (
	Containerd = "containerd"
	CRIO       = "cri-o"
	Docker     = "docker"
	Podman     = "podman"
)

// idLen is the length of a container ID. All runtimes use 64 hexadecimal digits.
const idLen = 64

// maxCgroupBytes limits what is read of a cgroup file. It has a line for each hierarchy; a path has at most 4096 bytes.
const maxCgroupBytes = 128 << 10

// Of returns the container of a process. The error is one of package os.
func Of(pid int) (Ref, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return Ref{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCgroupBytes))
	if err != nil {
		return Ref{}, err
	}
	return Parse(string(b)), nil
}

// Parse returns the container of a process, from the contents of its cgroup file: one line of the form "0::PATH" with cgroup v2, one
// line of the form "N:CONTROLLERS:PATH" for each hierarchy with cgroup v1. If containers are nested, as in a cluster whose nodes are
// containers, the result is the innermost one.
//
// A path can begin with "/../..": it is relative to the cgroup namespace of the process that reads the file, which is usually that of
// another container. The part that both have in common is missing then. So the pod of a process is unknown to a process in another
// container of the same pod.
func Parse(cgroup string) Ref {
	var pod Ref // of the first path that has a pod and no container
	for line := range strings.Lines(cgroup) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, path, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		ref := parsePath(strings.TrimSuffix(path, " (deleted)")) // of a process that ends, or was left in the cgroup
		if ref.ID != "" {
			return ref
		}
		if pod.PodUID == "" {
			pod = ref
		}
	}
	return pod
}

// parsePath returns the innermost container of the path of a cgroup.
func parsePath(path string) Ref {
	var ref Ref
	parent := ""
	for name := range strings.SplitSeq(path, "/") {
		unit := name
		// With the cgroupfs driver a runtime takes the name that the systemd driver of the kubelet passes for a directory:
		// "kubepods-burstable-podUID.slice:cri-containerd:ID".
		if slice, scope, ok := strings.Cut(name, ":"); ok {
			ref = enter(ref, slice)
			unit = strings.Replace(scope, ":", "-", 1)
		}
		ref = enter(ref, unit)
		if prefix, id, ok := splitID(unit); ok {
			if runtime, ok := runtimeOf(prefix, parent); ok {
				ref.ID, ref.Runtime = id, runtime
			}
		}
		parent = name
	}
	return ref
}

// enter returns the Ref for a cgroup in another one. A pod does not belong to the container around it, which is a node.
func enter(ref Ref, name string) Ref {
	if uid, ok := podUID(name); ok {
		return Ref{PodUID: uid}
	}
	return ref
}

// splitID splits the name of a container's cgroup into a prefix, without the dash, and the ID.
func splitID(name string) (prefix, id string, ok bool) {
	name = strings.TrimSuffix(name, ".scope")
	at := len(name) - idLen
	if at < 0 || !isHex(name[at:]) || at > 0 && name[at-1] != '-' {
		return "", "", false
	}
	return strings.TrimSuffix(name[:at], "-"), name[at:], true
}

// runtimeOf returns the runtime that names cgroups in a way: with a prefix, or without one in a parent of a certain name. ok is false if
// the cgroup is not that of a container.
func runtimeOf(prefix, parent string) (runtime string, ok bool) {
	switch prefix {
	case "cri-containerd", "containerd", "nerdctl":
		return Containerd, true
	case "crio":
		return CRIO, true
	case "docker":
		return Docker, true
	case "libpod", "libpod-payload":
		return Podman, true
	case "crio-conmon", "libpod-conmon": // the program that monitors the container
		return "", false
	case "":
		switch parent {
		case "docker":
			return Docker, true
		case "k8s.io", "moby": // namespaces of containerd
			return Containerd, true
		}
	}
	return "", true
}

// podUID returns the UID of the pod that the kubelet has created a cgroup for: "podUID", with the cgroupfs driver, or
// "kubepods-burstable-podUID.slice", where underscores replace the dashes of the UID.
func podUID(name string) (string, bool) {
	if slice, ok := strings.CutSuffix(name, ".slice"); ok {
		at := strings.LastIndexByte(slice, '-') + 1
		name = slice[at:]
	}
	uid, ok := strings.CutPrefix(name, "pod")
	if !ok {
		return "", false
	}
	uid = strings.ReplaceAll(uid, "_", "-")
	return uid, isUID(uid)
}

// isUID reports whether s is the UID of a pod: a UUID, or for a pod that a file on the node describes a hash of the file, 32 digits.
func isUID(s string) bool {
	if len(s) == 32 {
		return isHex(s)
	}
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch i {
		case 8, 13, 18, 23:
			if s[i] != '-' {
				return false
			}
		default:
			if !isHex(s[i : i+1]) {
				return false
			}
		}
	}
	return true
}

// isHex reports whether s has only lower-case hexadecimal digits.
func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdef") == ""
}
