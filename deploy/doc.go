// Package deploy has what installs and watches the node agent: a Helm chart and the manifests rendered from it, a systemd unit, a
// Dockerfile, seccomp profiles, dashboards, alerting rules, and examples of configurations for Prometheus and the OpenTelemetry
// Collector.
//
// The files are not Go code. The tests of this package check them with the programs that read them.
package deploy
