package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// A rule is an alert of rules.yaml.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	text, err := os.ReadFile("prometheus/rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rules []rule
	for _, g := range file.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// TestRules runs promtool: the rules are valid, and each alert fires and does not fire as rules_test.yaml says.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := realtarget.Promtool().Path(t)
	for _, args := range [][]string{{"check", "rules", "prometheus/rules.yaml"}, {"test", "rules", "prometheus/rules_test.yaml"}} {
		if status, stdout, stderr := testcmd.Run(t, testcmd.Command(t, promtool, args...)); status != 0 {
			t.Errorf("promtool %s: %s%s", args, stdout, stderr)
		}
	}
	tests, err := os.ReadFile("prometheus/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readRules(t) {
		fires := regexp.MustCompile(`labels: 'ALERTS\{alertname="`+r.Alert+`",.*`).FindAllString(string(tests), -1)
		if len(fires) != 1 {
			t.Errorf("alert %s fires in %d places of rules_test.yaml, want 1", r.Alert, len(fires))
			continue
		}
		for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"]+r.Annotations["description"], -1) {
			if !strings.Contains(fires[0], label[1]+"=") {
				t.Errorf("the texts of %s name the label %s, which it does not have: %s", r.Alert, label[1], fires[0])
			}
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("alert %s: severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("alert %s lacks a summary or a description", r.Alert)
		}
	}
}

// TestRulesDetect breaks an alert. The tests of rules.yaml must notice.
func TestRulesDetect(t *testing.T) {
	t.Parallel()
	promtool := realtarget.Promtool().Path(t)
	rules, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("prometheus/rules_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{{"> 0.001", "> 0.1"}, {"for: 30m", "for: 1m"}, {`{cause!="exited"}`, ""}} {
		if !strings.Contains(string(rules), change[0]) {
			t.Fatalf("rules.yaml does not contain %q", change[0])
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "rules.yaml"), strings.ReplaceAll(string(rules), change[0], change[1]))
		write(t, filepath.Join(dir, "rules_test.yaml"), string(tests))
		if status, _, _ := testcmd.Run(t, testcmd.Command(t, promtool, "test", "rules", filepath.Join(dir, "rules_test.yaml"))); status == 0 {
			t.Errorf("rules_test.yaml passes with %q instead of %q", change[1], change[0])
		}
	}
}

// discovery is the part of scrape.yaml that Debian's Prometheus does not support: it is built without discovery in Kubernetes.
var discovery = regexp.MustCompile(`(?s)  kubernetes_sd_configs:.*?(  relabel_configs:.*?)\n\n`)

// scrapeConfig returns scrape.yaml with targets at addresses in place of those that Kubernetes names.
func scrapeConfig(t *testing.T, instance, address string) string {
	t.Helper()
	text, err := os.ReadFile("prometheus/scrape.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !discovery.Match(text) {
		t.Fatal("scrape.yaml has no discovery in Kubernetes")
	}
	static := "  static_configs:\n  - targets: [\"" + address + "\"]\n    labels: {__meta_kubernetes_pod_container_port_name: metrics, " +
		"__meta_kubernetes_pod_node_name: " + instance + "}\n$1\n\n"
	return discovery.ReplaceAllString(string(text), static)
}

// TestScrape checks the example of a configuration.
func TestScrape(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prometheus.yaml"), scrapeConfig(t, "node-a", "127.0.0.1:9090"))
	rules, err := os.ReadFile("prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "rules.yaml"), string(rules))
	cmd := testcmd.Command(t, realtarget.Promtool().Path(t), "check", "config", filepath.Join(dir, "prometheus.yaml"))
	if status, stdout, stderr := testcmd.Run(t, cmd); status != 0 {
		t.Errorf("%s%s", stdout, stderr)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
