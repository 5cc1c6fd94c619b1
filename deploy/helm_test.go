package deploy

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

var update = flag.Bool("update", false, "write the manifests that are rendered from the chart")

// helm is Helm itself. The first test that needs it builds it, which takes some minutes: only make kube has tests do so.
var helm = realtarget.Spec{Name: "helm", Source: realtarget.Module{Path: "helm.sh/helm/v4", Version: "v4.3.1", Dir: "cmd/helm", Go: "1.27.4"}}

const chart = "helm/loupe-agent"

// helmCommand returns a command of Helm that neither reads nor writes the files of the user.
func helmCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	testtarget.Kube(t, "Helm")
	cmd := testcmd.Command(t, helm.Path(t), args...)
	cmd.Env = os.Environ()
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+t.TempDir())
	}
	return cmd
}

// render returns the manifests of the chart.
func render(t *testing.T, args ...string) string {
	t.Helper()
	cmd := helmCommand(t, slices.Concat([]string{"template", "loupe-agent", chart, "--namespace", "loupe", "--kube-version", "1.34"}, args)...)
	status, stdout, stderr := testcmd.Run(t, cmd)
	if status != 0 {
		t.Fatalf("helm template %s: %s", args, stderr)
	}
	return stdout
}

// helmOnly are the lines that belong to Helm.
var helmOnly = regexp.MustCompile(`(?m)^(# Source: .*| *app\.kubernetes\.io/managed-by: Helm)\n`)

// TestManifestsCurrent checks that the plain manifests are those of the chart.
func TestManifestsCurrent(t *testing.T) {
	const file = "kubernetes/loupe-agent.yaml"
	want := "# The node agent for Kubernetes, rendered from deploy/helm/loupe-agent by `LOUPE_KUBE=yes go test ./deploy -run TestManifestsCurrent -update`:\n" +
		"# kubectl apply -f deploy/kubernetes/loupe-agent.yaml\n" + helmOnly.ReplaceAllString(render(t, "--set", "namespace.create=true"), "")
	if *update {
		write(t, file, want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s is not current (%v): run LOUPE_KUBE=yes go test ./deploy -run TestManifestsCurrent -update", file, err)
	}
}

// TestLint runs Helm's own checks, and checks that wrong values are refused.
func TestLint(t *testing.T) {
	if status, stdout, stderr := testcmd.Run(t, helmCommand(t, "lint", "--strict", chart)); status != 0 {
		t.Errorf("%s%s", stdout, stderr)
	}
	for _, wrong := range []string{"extraCapabilities={NET_ADMIN}", "imagee.tag=1", "seccompProfile.type=Default", "networkPolicy.otlpPorts={0}"} {
		status, _, stderr := testcmd.Run(t, helmCommand(t, "template", "x", chart, "--set", wrong))
		if status == 0 || !strings.Contains(stderr, "schema") {
			t.Errorf("--set %s: status %d, %s", wrong, status, stderr)
		}
	}
}

// renderings are values that change what the chart renders.
func renderings(t *testing.T) map[string]string {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	write(t, values, `
config: {output: {prometheus: {listen: "127.0.0.1:9100"}, otlp: {endpoint: "http://collector:4317"}}, health: {listen: ":8090"}}
env: [{name: OTEL_EXPORTER_OTLP_HEADERS, valueFrom: {secretKeyRef: {name: otlp, key: headers}}}]
imagePullSecrets: [{name: registry}]
extraCapabilities: [DAC_READ_SEARCH, SYS_ADMIN]
seccompProfile: {type: Localhost}
priorityClassName: system-node-critical
podAnnotations: {a: b}
podLabels: {c: d}
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}}
serviceAccount: {annotations: {e: f}}
`)
	return map[string]string{
		"default":    render(t),
		"all values": render(t, "--values", values),
		"old":        render(t, "--kube-version", "1.29"),
		"silent": render(t, "--set", "config.output.prometheus.listen=", "--set", "config.health.listen=", "--set", "networkPolicy.enabled=false",
			"--set", "rbac.create=false", "--set", "serviceAccount.create=false", "--set", "tolerations=null"),
	}
}
