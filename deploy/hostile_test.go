package deploy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/crypto/bcrypt"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// hostile starts a process whose executable, path and environment have what breaks text formats.
func hostile(t *testing.T) *testtarget.Process {
	t.Helper()
	evil := "a\"}\n# HELP x\\\xff\x1b[31m\u202e{{.}}'<b>$(id) level=ERROR msg=\"forged\""
	dir := t.TempDir()
	for range 14 { // a path of nearly 4 KiB
		dir = filepath.Join(dir, strings.Repeat("d\n\"", 80))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(testtarget.Build(t, testtarget.Spec{Program: "colony", Stripped: true}))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, strings.ReplaceAll(evil, "/", "_"))
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Within(t, 0, path)
	cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME="+evil, "OTEL_RESOURCE_ATTRIBUTES="+strings.Repeat("service.name="+evil+",", 20)+
		"process.pid=1,k8s.pod.name=other,"+strings.Repeat("k", 4096)+"="+strings.Repeat("\xff", 4096)+",=,==,%zz=%00%0a,\n=\n")
	return testtarget.StartCmd(t, cmd)
}

// TestHostile observes a process with hostile names. The exposition, the log and what is sent by OTLP stay well-formed, and say nothing else
// about another process.
func TestHostile(t *testing.T) {
	t.Parallel()
	target, other := hostile(t), colony(t)
	receiver := testcollector.Receive(t, nil)
	b := startBinary(t, only(fmt.Sprintf("output: {otlp: {protocol: http/protobuf, endpoint: \"http://%s\", metric_interval: 1s}}\n"+
		"log: {level: debug}\nalerts: {goroutine_growth: 10, for: 0s}\n", receiver.HTTP), target, other))
	b.await(atLeast(1), "go_goroutine_count", pidLabel(target))
	b.await(atLeast(1), "go_goroutine_count", pidLabel(other))
	_, text := b.get(b.metrics, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "loupe_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("a metric is forged: %q", name)
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if v := l.GetValue(); len(v) > 256 || !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%s: label %s is %q", name, l.GetName(), v)
				}
			}
		}
	}
	b.await(atLeast(1), "loupe_agent_export_items_total", `signal="metrics"`, `result="exported"`)
	if n := b.sum("loupe_agent_export_items_total", `signal="metrics"`) - b.sum("loupe_agent_export_items_total", `signal="metrics"`, `result="exported"`); n != 0 {
		t.Errorf("%v data points are refused", n)
	}
	for line := range strings.Lines(b.logged()) {
		if !strings.HasPrefix(line, "time=") || !utf8.ValidString(line) || strings.Contains(line, "level=ERROR msg=forged") || len(line) > 20_000 ||
			strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line of the log is %q", line)
		}
	}
	exported := func() map[string]int {
		pids := map[string]int{}
		for _, r := range receiver.Metrics() {
			for _, a := range r.Resource.Attributes {
				if a.Key == "process.pid" {
					pids[fmt.Sprint(a.Value.GetIntValue())]++
				}
			}
		}
		return pids
	}
	pids := exported() // the first export may be before the processes are known
	for begun := time.Now(); pids[fmt.Sprint(target.PID())] == 0 && time.Since(begun) < testcmd.Patience; pids = exported() {
		time.Sleep(100 * time.Millisecond)
	}
	if pids["1"] != 0 || pids[fmt.Sprint(target.PID())] == 0 {
		t.Errorf("the metrics are those of processes %v", pids)
	}
	if target.Command("num") == "" {
		t.Error("the target does not work any more")
	}
}

// TestAccess serves metrics by TLS to clients with a password.
func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "cert.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	write(t, filepath.Join(dir, "web.yml"), fmt.Sprintf("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {scraper: %q}\n", hash))
	b := startBinary(t, only("", colony(t)), "--set=output.prometheus.web_config_file="+filepath.Join(dir, "web.yml"))
	if resp, err := b.client.Get("http://" + b.metrics + "/metrics"); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the agent serves without TLS")
		}
	}
	b.scheme = "https"
	for user, want := range map[string]int{"": 401, "scraper:wrong@": 401, "other:secret@": 401, "scraper:secret@": 200} {
		if status, _ := b.get(user+b.metrics, "/metrics"); status != want {
			t.Errorf("status %d for %q, want %d", status, user, want)
		}
	}
}
