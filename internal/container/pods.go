package container

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// LogDirs returns the directories in which the kubelet of this machine keeps the logs of pods, in the order in which [Pods] reads them.
// The first one is that of the process with ID 1: that is the machine's own in a container which has the PID namespace of the machine
// (hostPID), and requires root or CAP_SYS_PTRACE.
func LogDirs() []string { return []string{"/proc/1/root/var/log/pods", "/var/log/pods"} }

// A Pod is a Kubernetes pod that runs, or has run, on this machine.
type Pod struct {
	Namespace, Name string
	UID             string // for a pod that a file on the node describes the kubelet's UID, as in [Ref], which is not that of the API
}

// Pods returns the pods that have logs in the first of the directories that can be read. The kubelet creates a directory for each pod
// before it starts the containers, and removes it some time after the pod was deleted: pods of the same name can be in the list.
func Pods(dirs []string) ([]Pod, error) {
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var list []Pod
		for _, e := range entries {
			if p, ok := parsePod(e); ok {
				list = append(list, p)
			}
		}
		return list, nil
	}
	if len(errs) == 0 {
		return nil, fs.ErrNotExist
	}
	return nil, errors.Join(errs...)
}

// parsePod returns the pod of a directory NAMESPACE_NAME_UID. None of the three can contain an underscore.
func parsePod(e fs.DirEntry) (Pod, bool) {
	part := strings.Split(e.Name(), "_")
	if !e.IsDir() || len(part) != 3 || part[0] == "" || part[1] == "" || !isUID(part[2]) {
		return Pod{}, false
	}
	return Pod{part[0], part[1], part[2]}, true
}
