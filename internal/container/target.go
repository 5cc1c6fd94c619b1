package container

import (
	"fmt"
	"strings"
)

// minPrefix is the minimum length of the prefix of a container ID, which is the length that the runtimes show.
const minPrefix = 12

// A Target is what a user can name: a container, or a pod.
type Target struct {
	text   string
	prefix string // of the ID of a container; empty for a pod

	namespace, name string // of a pod; the namespace is empty if it was not given
}

// The prefixes of targets.
const (
	containerScheme = "container:"
	podScheme       = "pod:"
)

// ParseTarget parses a target of the form "container:ID", "pod:NAME" or "pod:NAMESPACE/NAME". A container ID may be abbreviated to 12
// digits, and needs no "container:" before it. ok is false if the target has none of these forms.
func ParseTarget(text string) (t Target, ok bool, err error) {
	id, explicit := strings.CutPrefix(text, containerScheme)
	if len(id) >= minPrefix && len(id) <= idLen && isHex(id) {
		return Target{text: text, prefix: id}, true, nil
	}
	if explicit {
		return Target{}, false, fmt.Errorf("%s: not a container ID: use 12 to 64 hexadecimal digits", text)
	}
	pod, ok := strings.CutPrefix(text, podScheme)
	if !ok {
		return Target{}, false, nil
	}
	namespace, name, ok := strings.Cut(pod, "/")
	if !ok {
		namespace, name = "", pod
	}
	if name == "" || ok && namespace == "" || strings.Contains(name, "/") {
		return Target{}, false, fmt.Errorf("%s: not a pod: use pod:NAME or pod:NAMESPACE/NAME", text)
	}
	return Target{text: text, namespace: namespace, name: name}, true, nil
}

// Implicit reports whether the target could also be the name of a process, because it is only a container ID.
func (t Target) Implicit() bool { return t.text == t.prefix }

// Matcher returns a predicate for the processes of the target. The UIDs of pods are read from the first of the directories that can be
// read; see [LogDirs].
func (t Target) Matcher(logDirs []string) (func(Ref) bool, error) {
	if t.prefix != "" {
		return func(r Ref) bool { return strings.HasPrefix(r.ID, t.prefix) }, nil
	}
	pods, err := Pods(logDirs)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read the names of pods (run on the node of the pod, with sudo): %w", t.text, oneLine{err})
	}
	uids := map[string]bool{}
	for _, p := range pods {
		if p.Name == t.name && (t.namespace == "" || p.Namespace == t.namespace) {
			uids[p.UID] = true
		}
	}
	return func(r Ref) bool { return uids[r.PodUID] }, nil
}

// oneLine is an error whose text is one line.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.ReplaceAll(e.error.Error(), "\n", "; ") }
func (e oneLine) Unwrap() error { return e.error }
