package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/metric/metrictest"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
)

// secure writes a web configuration with a certificate and a user, and returns its path and that of the certificate.
func secure(t *testing.T) (config, certificate string) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "agent"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"web.yml":  []byte(users + "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "web.yml"), filepath.Join(dir, "cert.pem")
}

// TestClientCertificate serves pprof to other machines, whose clients have a certificate.
func TestClientCertificate(t *testing.T) {
	_, certificate := secure(t)
	dir := filepath.Dir(certificate)
	config := filepath.Join(dir, "mutual.yml")
	text := "tls_server_config: {cert_file: cert.pem, key_file: key.pem, client_ca_file: cert.pem, client_auth_type: RequireAndVerifyClientCert}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Pprof: "0.0.0.0:0", WebConfig: config})
	_, port, err := net.SplitHostPort(s.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	pemText, err := os.ReadFile(certificate)
	if err != nil || !roots.AppendCertsFromPEM(pemText) {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certificate, filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range [][]tls.Certificate{nil, {pair}} {
		c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}}}
		answer, err := c.Get("https://127.0.0.1:" + port + "/debug/pprof/cmdline")
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil && answer.StatusCode == http.StatusOK) != (own != nil) {
			t.Errorf("with %d certificates: %v, %v", len(own), answer, err)
		}
	}
}

// A prometheusServer is a Prometheus that scrapes an address.
type prometheusServer struct {
	t   *testing.T
	url string
}

// startPrometheus starts Prometheus, which scrapes an address by TLS and with a password.
func startPrometheus(t *testing.T, address, certificate string, args ...string) *prometheusServer {
	t.Helper()
	exe := realtarget.Spec{Name: "prometheus", Source: realtarget.Debian{Package: "prometheus", File: "usr/bin/prometheus"}}.Path(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(`
scrape_configs:
- job_name: loupe
  scrape_interval: 1s
  honor_labels: true
  scheme: https
  tls_config: {ca_file: %q}
  basic_auth: {username: scraper, password: secret}
  static_configs: [{targets: [%q]}]
`, certificate, address)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	listen := testport.Address(t)
	cmd := testcmd.Within(t, 0, exe, append(args, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+listen, "--log.level=warn")...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := testcmd.StartTied(cmd, syscall.SIGKILL, func() { _ = cmd.Wait() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if printed, _ := os.ReadFile(log.Name()); t.Failed() || strings.Contains(string(printed), "level=error") {
			t.Errorf("Prometheus printed:\n%s", printed)
		}
	})
	return &prometheusServer{t: t, url: "http://" + listen}
}

// get returns the data of an answer of the API, or nil if there is none yet.
func (p *prometheusServer) get(path string, values url.Values) json.RawMessage {
	answer, err := client.Get(p.url + path + "?" + values.Encode())
	if err != nil {
		return nil // it has not started yet
	}
	defer answer.Body.Close()
	var doc struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&doc); err != nil {
		return nil
	}
	if answer.StatusCode == http.StatusBadRequest {
		p.t.Fatalf("%s %v: %s", path, values, doc.Error)
	}
	return doc.Data
}

// A vector is the answer of a query.
type vector []struct {
	Metric map[string]string
	Value  [2]any
}

// query returns the answer of a query as soon as it is not empty.
func (p *prometheusServer) query(q string) vector {
	p.t.Helper()
	for end := time.Now().Add(testcmd.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var data struct{ Result vector }
		if raw := p.get("/api/v1/query", url.Values{"query": {q}}); raw != nil {
			if err := json.Unmarshal(raw, &data); err != nil {
				p.t.Fatal(err)
			}
			if len(data.Result) > 0 {
				return data.Result
			}
		}
	}
	p.t.Fatalf("no answer to %s", q)
	return nil
}

// value returns the value of the only series of an answer.
func (p *prometheusServer) value(q string) float64 {
	p.t.Helper()
	v := p.query(q)
	text, _ := v[0].Value[1].(string)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || len(v) != 1 {
		p.t.Fatalf("%s: %v", q, v)
	}
	return f
}

// hostileSites are values of a label that must arrive in Prometheus as labelValue makes them.
var hostileSites = []string{"a\"b\\c\nd", "\xff\xfe", "x} 1\n# EOF\nloupe_goroutines 5", strings.Repeat("世", 50_000), "\x00\u202e", "plain"}

// TestPrometheus has a real Prometheus scrape the metrics of a fleet, by TLS with a password: in the protobuf format, which has native
// histograms, and in OpenMetrics.
func TestPrometheus(t *testing.T) {
	config, certificate := secure(t)
	fleet := metrictest.Fleet{Targets: 3}
	ill := metric.Group{Identity: metric.Identity{PID: 66, Process: "evil\n\"\xff", Pod: "a{b=\"c\"}"}}
	for _, s := range hostileSites {
		ill.Points = append(ill.Points, metric.Sites.Of(1, s))
	}
	rng := mathrand.New(mathrand.NewPCG(9, 9))
	for range 200 {
		ill.Points = append(ill.Points, metric.Waits.Of(1, hostile(rng), hostile(rng)))
	}
	source := func(context.Context) []metric.Group { return append(fleet.Groups(time.Now()), ill) }
	s := start(t, Options{Metrics: "127.0.0.1:0", WebConfig: config, Collector: NewCollector(CollectorOptions{Source: source, MinAge: time.Millisecond})})
	for _, format := range []struct {
		name     string
		features string
	}{{"protobuf", "native-histograms,exemplar-storage"}, {"OpenMetrics", "exemplar-storage"}} {
		t.Run(format.name, func(t *testing.T) {
			t.Parallel() // Prometheus waits for five seconds before it scrapes
			p := startPrometheus(t, s.Addresses()[0], certificate, "--enable-feature="+format.features)
			p.query("up == 1")
			native := format.name == "protobuf"
			p.checkTable(native)
			p.checkHostile()
			p.checkExemplars(map[bool]string{true: metric.SchedulerLatency.Name, false: metric.SchedulerLatency.Name + "_bucket"}[native])
		})
	}
}

// checkTable checks that each metric of the table has arrived.
func (p *prometheusServer) checkTable(native bool) {
	for _, d := range metric.Table {
		switch {
		case d.Kind != metric.Histogram:
			p.query(d.Name)
		case native:
			count := p.value("sum(histogram_count(" + d.Name + "))")
			if q := p.value("histogram_quantile(0.5, sum(" + d.Name + "))"); count < 100 || q < 1e-6 || q > 1e-2 {
				p.t.Errorf("%s: %v durations, the median is %v", d.Name, count, q)
			}
		default:
			count := p.value("sum(" + d.Name + "_count)")
			if all := p.value("sum(" + d.Name + `_bucket{le="+Inf"})`); all < 100 || all < count-1 {
				p.t.Errorf("%s: %v durations, %v in buckets", d.Name, count, all)
			}
			for _, b := range bounds {
				if n := len(p.query(fmt.Sprintf("count(%s_bucket{le=%q})", d.Name, fmt.Sprint(b)+map[bool]string{true: ".0"}[b >= 1]))); n != 1 {
					p.t.Errorf("%s has no bucket %v", d.Name, b)
				}
			}
		}
	}
}

// checkHostile checks that labels that programs choose have arrived, and that nothing of them has become a series of its own.
func (p *prometheusServer) checkHostile() {
	have := map[string]bool{}
	for _, s := range p.query(metric.Sites.Name + `{pid="66"}`) {
		have[s.Metric["site"]] = true
		if s.Metric["process"] != labelValue("evil\n\"\xff") || s.Metric["pod"] != `a{b="c"}` {
			p.t.Errorf("labels %q", s.Metric)
		}
	}
	for _, s := range hostileSites {
		if !have[labelValue(s)] {
			p.t.Errorf("no series with the label %q", labelValue(s))
		}
	}
	if len(have) != len(hostileSites) {
		p.t.Errorf("%d series, want %d", len(have), len(hostileSites))
	}
	served := p.value("count(" + metric.Waits.Name + `{pid="66"})`)
	lost := p.value(metric.SeriesDropped.Name + `{cause="duplicate"}`)
	scrapes := p.value(`count_over_time(up[1h])`)
	if served < 100 || served == 200 && lost != 0 || served < 200 && lost < scrapes {
		p.t.Errorf("%v of 200 series; %v dropped in %v scrapes", served, lost, scrapes)
	}
}

// checkExemplars checks that exemplars of a series have arrived with their labels.
func (p *prometheusServer) checkExemplars(series string) {
	for end := time.Now().Add(testcmd.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var found []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		raw := p.get("/api/v1/query_exemplars", url.Values{
			"query": {series}, "start": {fmt.Sprint(time.Now().Add(-time.Hour).Unix())}, "end": {fmt.Sprint(time.Now().Add(time.Hour).Unix())},
		})
		if raw == nil {
			continue
		}
		if err := json.Unmarshal(raw, &found); err != nil {
			p.t.Fatal(err)
		}
		for _, f := range found {
			for _, e := range f.Exemplars {
				if len(e.Labels["trace_id"]) != 32 || len(e.Labels["span_id"]) != 16 {
					p.t.Errorf("an exemplar has the labels %q", e.Labels)
				}
				return
			}
		}
	}
	p.t.Errorf("no exemplars of %s", series)
}
