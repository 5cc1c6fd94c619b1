package config

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Subject is a process, as targets and overrides match it. Fields of the pod are empty outside a pod.
type Subject struct {
	PID  int
	Exe  string // path of the executable, as the process sees it
	User string // name; empty if it has none
	UID  int    // -1 if unknown

	Namespace   string
	Pod         string
	Labels      map[string]string // of the pod
	Annotations map[string]string // of the pod; not trusted
}

// The annotations of pods. Those of other pods than one's own cannot be set without permission, so they are the wish of the pod's owner.
const (
	AnnotationObserve = "loupe.dev/observe" // "true" or "false"
	AnnotationEngine  = "loupe.dev/engine"  // as tracing.engine
	AnnotationSpans   = "loupe.dev/spans"   // "true" or "false"
)

// Matches reports whether a process matches. An empty Match matches all.
func (m *Match) Matches(s Subject) bool { return m.refused(s) == "" }

// refused returns the key because of which a process does not match, "" if it does.
func (m *Match) refused(s Subject) string {
	if key := m.excluded(s); key != "" {
		return key
	}
	switch {
	case len(m.IncludeNamespaces) > 0 && !anyGlob(m.IncludeNamespaces, s.Namespace):
		return "include_namespaces"
	case len(m.IncludePods) > 0 && !anyGlob(m.IncludePods, s.Pod):
		return "include_pods"
	case len(m.BinaryPatterns) > 0 && !slices.ContainsFunc(m.BinaryPatterns, func(p string) bool { return matchExe(p, s.Exe) }):
		return "binary_patterns"
	case len(m.PIDs) > 0 && !slices.Contains(m.PIDs, s.PID):
		return "pids"
	case len(m.Users) > 0 && !slices.ContainsFunc(m.Users, s.runsAs):
		return "users"
	}
	for name, pattern := range m.Labels {
		if value, ok := s.Labels[name]; !ok || !matchGlob(pattern, value) {
			return "labels"
		}
	}
	return ""
}

// excluded returns the exclude key that refuses a process.
func (m *Match) excluded(s Subject) string {
	switch {
	case s.Namespace != "" && anyGlob(m.ExcludeNamespaces, s.Namespace):
		return "exclude_namespaces"
	case s.Pod != "" && anyGlob(m.ExcludePods, s.Pod):
		return "exclude_pods"
	}
	return ""
}

// empty reports whether no key is set.
func (m *Match) empty() bool {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if v.Field(i).Len() > 0 {
			return false
		}
	}
	return true
}

func (s *Subject) runsAs(user string) bool {
	return user == s.User && user != "" || s.UID >= 0 && user == strconv.Itoa(s.UID)
}

func anyGlob(patterns []string, name string) bool {
	return name != "" && slices.ContainsFunc(patterns, func(p string) bool { return matchGlob(p, name) })
}

// matchExe compares a pattern with the path of an executable, or with its base name if the pattern has no slash.
func matchExe(pattern, exe string) bool {
	if exe == "" {
		return false
	}
	if !strings.Contains(pattern, "/") {
		exe = path.Base(exe)
	}
	return matchGlob(pattern, exe)
}

// matchGlob is [path.Match], except that * and ? also match a slash: /app/* matches all that is below /app. In both, NUL replaces the
// slash: neither a pattern nor a path can have one.
func matchGlob(pattern, name string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
	return ok && err == nil
}

// A Decision is what the configuration says about a process.
type Decision struct {
	Observe  bool
	Reason   string // what decided: a key or an annotation; empty if the process is observed because nothing refuses it
	Tracing  Tracing
	Sampling Sampling
	// Warnings are about annotations with values that are ignored, one line each.
	Warnings []string
}

// Decide returns whether a process is observed, and with which settings.
//
// The exclude keys of targets have precedence over everything: a process that they refuse is not observed. Then the annotation
// loupe.dev/observe decides. Then the other keys of targets must match. The settings are those of tracing and sampling, changed by each override that
// matches, in order, and then by the annotations for engine and spans.
func (c *Config) Decide(s Subject) Decision {
	d := Decision{Tracing: c.Tracing.Tracing, Sampling: c.Sampling}
	d.Tracing.Profiles = slices.Clone(d.Tracing.Profiles)
	for i := range c.Tracing.Overrides {
		c.Tracing.Overrides[i].apply(s, &d)
	}
	d.Observe, d.Reason = true, ""
	if key := c.Targets.refused(s); key != "" {
		d.Observe, d.Reason = false, "targets."+key
	}
	if value, ok := c.annotation(s, AnnotationObserve, []string{"true", "false"}, &d); ok && c.Targets.excluded(s) == "" {
		d.Observe, d.Reason = value == "true", "annotation "+AnnotationObserve
	}
	if value, ok := c.annotation(s, AnnotationEngine, root().find("tracing.engine").enum, &d); ok {
		d.Tracing.Engine = value
	}
	if value, ok := c.annotation(s, AnnotationSpans, []string{"true", "false"}, &d); ok {
		d.Tracing.Spans = value == "true"
	}
	return d
}

// For returns the settings for a process. See [Config.Decide].
func (c *Config) For(s Subject) Tracing { return c.Decide(s).Tracing }

// annotation returns the value of an annotation that is respected.
func (c *Config) annotation(s Subject, name string, values []string, d *Decision) (string, bool) {
	value, ok := s.Annotations[name]
	if !ok || !slices.Contains(c.Kubernetes.Annotations, strings.TrimPrefix(name, "loupe.dev/")) {
		return "", false
	}
	value = strings.ToLower(strings.TrimSpace(value))
	if slices.Contains(values, value) {
		return value, true
	}
	d.Warnings = append(d.Warnings, fmt.Sprintf("annotation %s: must be %s, is %s; ignored", name, either(values), quote(value)))
	return "", false
}

// apply sets what an override sets, if a process matches.
func (o *Override) apply(s Subject, to *Decision) {
	if !o.Match.Matches(s) {
		return
	}
	result := Override{Tracing: to.Tracing, Sampling: to.Sampling}
	all, from, into := overrides(), reflect.ValueOf(o).Elem(), reflect.ValueOf(&result).Elem()
	for _, f := range o.set {
		all.at(into, f.path).Set(all.at(from, f.path))
	}
	to.Tracing, to.Sampling = result.Tracing, result.Sampling
	to.Tracing.Profiles = slices.Clone(to.Tracing.Profiles)
}

// overrides describes an Override.
func overrides() *field { return root().find("tracing.overrides") }

// ofMatch reports whether a field of an Override is one of those that select targets.
func (f *field) ofMatch() bool { return strings.HasPrefix(f.path, "match.") }
