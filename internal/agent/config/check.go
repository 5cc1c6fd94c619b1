package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// A checker finds settings that contradict each other.
type checker struct {
	*Config
	problems Problems
}

// check returns what is wrong with a configuration whose values are each possible, and sets the warnings.
func (c *Config) check() Problems {
	k := &checker{Config: c}
	k.checkTLS()
	k.checkListeners()
	k.checkMatch("targets", &c.Targets)
	for i := range c.Tracing.Overrides {
		k.checkMatch(fmt.Sprintf("tracing.overrides[%d].match", i), &c.Tracing.Overrides[i].Match)
	}
	if c.Budget.BufferBytes >= c.Budget.Memory {
		k.report("budget.buffer_bytes", "must be less than budget.memory, which is %s", renderSize(int64(c.Budget.Memory)))
	}
	k.checkEffects()
	return append(k.problems, c.checkOTEL()...)
}

// isSet reports whether a key has been set.
func (c *Config) isSet(path string) bool { return c.origins[path] != (Origin{}) }

func (k *checker) report(path, message string, args ...any) {
	k.problems = append(k.problems, Problem{k.origins[path], path, fmt.Sprintf(message, args...)})
}

func (k *checker) warn(path, message string, args ...any) {
	k.warnings = append(k.warnings, Problem{k.origins[path], path, fmt.Sprintf(message, args...)})
}

func (k *checker) checkTLS() {
	const at = "output.otlp.tls."
	t := &k.Output.OTLP.TLS
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		k.report(at+"cert_file", "requires key_file")
	case t.KeyFile != "" && t.CertFile == "":
		k.report(at+"key_file", "requires cert_file")
	}
	scheme, _, _ := strings.Cut(k.Output.OTLP.Endpoint, ":")
	secure, plain := strings.EqualFold(scheme, "https"), strings.EqualFold(scheme, "http")
	for _, file := range []struct{ key, name string }{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}} {
		path := at + file.key
		switch {
		case file.name == "" || k.origins[path].Env != "": // a variable may be for other programs, too
		case plain:
			k.report(path, "contradicts output.otlp.endpoint, which does not use TLS (begin it with https://)")
		case t.Insecure && !secure:
			k.report(path, "contradicts output.otlp.tls.insecure (remove one)")
		}
	}
	if t.Insecure && secure && k.origins[at+"insecure"].Env == "" {
		k.report(at+"insecure", "contradicts output.otlp.endpoint, which begins with https://")
	}
}

func (k *checker) checkListeners() {
	servers := []struct{ path, address string }{
		{"output.prometheus.listen", k.Output.Prometheus.Listen}, {"health.listen", k.Health.Listen}, {"pprof.listen", k.PProf.Listen},
	}
	for i, s := range servers {
		for _, other := range servers[:i] {
			if collide(s.address, other.address) {
				path, with := s.path, other
				if !k.isSet(path) { // the other one is the mistake
					path, with.path, with.address = other.path, s.path, s.address
				}
				k.report(path, "has the same port as %s, which is %s", with.path, quote(with.address))
			}
		}
	}
}

// collide reports whether two servers cannot listen at the same time.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || strings.TrimLeft(portA, "0") == "" || strings.TrimLeft(portA, "0") != strings.TrimLeft(portB, "0") {
		return false
	}
	anywhere := []string{"", "0.0.0.0", "::"}
	return hostA == hostB || slices.Contains(anywhere, hostA) || slices.Contains(anywhere, hostB)
}

func (k *checker) checkMatch(path string, m *Match) {
	for _, pair := range []struct {
		include, exclude string
		in, out          []string
	}{
		{"include_namespaces", "exclude_namespaces", m.IncludeNamespaces, m.ExcludeNamespaces},
		{"include_pods", "exclude_pods", m.IncludePods, m.ExcludePods},
	} {
		for _, pattern := range pair.in {
			if slices.Contains(pair.out, pattern) {
				k.report(path+"."+pair.exclude, "%s is also in %s", quote(pattern), pair.include)
			}
		}
	}
	if k.Kubernetes.Enabled != "false" {
		return
	}
	for _, need := range []struct {
		key string
		n   int
	}{{"include_namespaces", len(m.IncludeNamespaces)}, {"include_pods", len(m.IncludePods)}, {"labels", len(m.Labels)}} {
		if need.n > 0 {
			k.report(path+"."+need.key, "matches no process, because kubernetes.enabled is false")
		}
	}
}

// checkEffects warns about settings without an effect.
func (k *checker) checkEffects() {
	without := func(missing string, paths ...string) {
		for _, path := range paths {
			if k.isSet(path) {
				k.warn(path, "has no effect without %s", missing)
			}
		}
	}
	if k.Recordings.Directory == "" {
		without("recordings.directory", "recordings.seconds", "recordings.max_bytes")
	}
	if k.Output.Profiles.Directory == "" {
		without("output.profiles.directory", "output.profiles.max_bytes")
		if len(k.Tracing.Profiles) > 0 && !k.Sends("profiles") {
			without("output.otlp.endpoint or output.profiles.directory", "tracing.profiles")
		}
	}
	if !slices.ContainsFunc(signals(), k.Sends) {
		for _, key := range []string{"protocol", "headers", "batch_size", "flush_interval", "metric_interval", "tls.ca_file", "tls.insecure"} {
			if path := "output.otlp." + key; k.origins[path].Env == "" {
				without("output.otlp.endpoint", path)
			}
		}
	}
	if k.Output.Prometheus.Listen == "" {
		without("output.prometheus.listen", "output.prometheus.web_config_file", "output.prometheus.sites")
	}
	if k.Kubernetes.Enabled == "false" {
		without("kubernetes.enabled", "kubernetes.kubeconfig", "kubernetes.annotations")
	}
	if !k.Tracing.GoroutineEvents {
		without("tracing.goroutine_events", "tracing.channel_operations", "tracing.mutex_contention", "tracing.stack_traces")
	}
}
