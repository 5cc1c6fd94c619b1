package realtarget

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Collector is the OpenTelemetry Collector, built by its builder with the receiver of OTLP, the exporter that prints
// what was received, and the one that sends it on by OTLP. Building it takes one to two minutes.
type Collector struct{}

// collectorBuilder has the version of the components. Their configuration has a version of its own.
const (
	collectorBuilder  = "go.opentelemetry.io/collector/cmd/builder@v0.155.0"
	collectorManifest = `dist:
  name: collector
  output_path: ./build
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v0.155.0
processors:
  - gomod: go.opentelemetry.io/collector/processor/memorylimiterprocessor v0.155.0
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v0.155.0
  - gomod: go.opentelemetry.io/collector/exporter/otlpexporter v0.155.0
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v0.155.0
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.61.0
conf_resolver:
  default_uri_scheme: file
`
)

// String implements Source.
func (Collector) String() string { return "OpenTelemetry Collector of " + collectorBuilder }

func (Collector) key() string {
	sum := sha256.Sum256([]byte(collectorBuilder + collectorManifest))
	return "collector-" + hex.EncodeToString(sum[:8])
}

func (Collector) missing() string {
	if _, err := exec.LookPath("go"); err != nil {
		return "the go command"
	}
	return ""
}

func (Collector) get(dir, name string) error {
	manifest := filepath.Join(dir, "builder.yaml")
	if err := os.WriteFile(manifest, []byte(collectorManifest), 0o644); err != nil {
		return err
	}
	// The module of the collector is written by the builder, and is no part of a workspace.
	env := slices.Concat(os.Environ(), []string{"GOFLAGS=-mod=mod", "GO111MODULE=on", "GOWORK=off", "CGO_ENABLED=0"})
	if err := run(dir, env, "go", "run", collectorBuilder, "--skip-compilation", "--config", manifest); err != nil {
		return err
	}
	// The builder would compile with -trimpath, and thus all packages that other programs have, too, once more.
	return run(filepath.Join(dir, "build"), env, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-gcflags=go.opentelemetry.io/collector/...="+quickly,
		"-o", filepath.Join(dir, name), ".")
}
