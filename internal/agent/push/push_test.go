package push

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/export/otlp"
	_ "github.com/loupe-go/loupe/internal/testcmd" // the environment of tests
	"github.com/loupe-go/loupe/internal/testcollector"
	"github.com/loupe-go/loupe/sched"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is a deadline that only a test which fails reaches.
const patience = time.Minute

// quick repeats requests soon, impatient gives up soon.
var (
	quick     = &otlp.Retry{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 10 * time.Millisecond, MaxElapsedTime: patience}
	impatient = &otlp.Retry{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: 5 * time.Millisecond, MaxElapsedTime: 10 * time.Millisecond}
)

// none is an environment without variables.
func none(string) (string, bool) { return "", false }

// protocols are the protocols of OTLP, each with the endpoint of a back end.
var protocols = map[string]func(http, grpc string) string{
	"http/protobuf": func(http, _ string) string { return http },
	"grpc":          func(_, grpc string) string { return grpc },
}

// open returns a pusher. It is closed when the test ends, if it is not closed before.
func open(t testing.TB, o Options) *Pusher {
	t.Helper()
	if o.Lookup == nil {
		o.Lookup = none
	}
	if o.retry == nil {
		o.retry = quick
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = time.Hour
	}
	o.Host, o.Version = "node-1", "v1.2.3"
	p, warnings, err := New(context.Background(), o)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %q", err, warnings)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx)
	})
	return p
}

// closeAll closes a pusher that can export everything.
func closeAll(t testing.TB, p *Pusher) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func target(t testing.TB, p *Pusher, id metric.Identity) *Target {
	t.Helper()
	to, err := p.Target(id)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// until waits until a condition holds.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s", what)
		}
	}
}

// A logBook collects log lines.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBook) log() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBook) count(part string) int { return strings.Count(b.String(), part) }

// pod is a process in a pod, and host one outside of Kubernetes, with the attributes of their resources.
var (
	pod = metric.Identity{
		PID: 4711, Process: "shop", Exe: "/app/shop", Service: "checkout", Container: "main", ContainerID: "c0ffee", Namespace: "prod", Pod: "shop-7f-x2", PodUID: "uid-1",
		Workload: "shop", Kind: "Deployment", Node: "node-1", GoVersion: "go1.27.1", Version: "v0.9.0",
		Extra: []metric.KeyValue{{Key: "team", Value: "payments"}, {Key: "k8s.namespace.name", Value: "forged"}, {Key: "service.version", Value: "2026.11"}},
	}
	host = metric.Identity{PID: 12, Process: "batch", Exe: "/srv/batch", GoVersion: "go1.12.17"}

	podResource = map[string]string{
		"service.name": "checkout", "service.version": "2026.11", "service.instance.id": "prod.shop-7f-x2.main.4711", "process.pid": "4711",
		"process.executable.name": "shop", "process.executable.path": "/app/shop", "process.runtime.name": "go", "process.runtime.version": "go1.27.1",
		"k8s.namespace.name": "prod", "k8s.pod.name": "shop-7f-x2", "k8s.pod.uid": "uid-1", "k8s.container.name": "main", "k8s.deployment.name": "shop",
		"k8s.node.name": "node-1", "container.id": "c0ffee", "host.name": "node-1", "team": "payments", "telemetry.distro.name": "loupe",
		"telemetry.distro.version": "v1.2.3", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
	}
	hostResource = map[string]string{
		"service.name": "batch", "service.instance.id": "node-1.12", "process.pid": "12", "process.executable.name": "batch", "process.executable.path": "/srv/batch",
		"process.runtime.name": "go", "process.runtime.version": "go1.12.17", "host.name": "node-1", "telemetry.distro.name": "loupe",
		"telemetry.distro.version": "v1.2.3", "telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
	}
)

// checkResource compares the attributes of a resource, all of them but the version of the SDK.
func checkResource(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s of the resource is %q, want %q", key, got[key], value)
		}
	}
	for key, value := range got {
		if _, ok := want[key]; !ok && key != "telemetry.sdk.version" {
			t.Errorf("%s=%q of the resource is not wanted", key, value)
		}
	}
}

// started and now are the times of the groups of tests.
var (
	started = time.Date(2026, 11, 27, 8, 0, 0, 5, time.UTC)
	now     = time.Date(2026, 11, 27, 9, 0, 0, 7, time.UTC)
)

// durations returns a histogram.
func durations(list ...time.Duration) *sched.Histogram {
	h := &sched.Histogram{}
	for _, d := range list {
		h.Add(d)
	}
	return h
}

// groupOf returns a group with all kinds of points.
func groupOf(id metric.Identity) metric.Group {
	h := metric.SchedulerLatency.Distribution(durations(0, 5, time.Microsecond, time.Millisecond, 3*time.Second), "woken")
	h.Durations.Exemplars = []metric.Exemplar{
		{Seconds: 0.001, At: now.UnixNano() - 3, TraceID: [16]byte{1, 15: 2}, SpanID: [8]byte{3, 7: 4}}, {Seconds: 3, At: 1}, // the second belongs to no span
	}
	return metric.Group{Identity: id, Start: started.UnixNano(), At: now.UnixNano(), Points: []metric.Point{
		metric.Goroutines.Of(42),
		metric.States.Of(40, "waiting", "chan receive"),
		metric.States.Of(2, "running", ""),
		metric.Waits.Of(1e15+1, "channel", "chan receive"),
		metric.WaitTime.Of(0.25, "channel", "chan receive"),
		h,
		metric.OldestWait.Of(3600.5, "io"),
		metric.Sites.Of(7, "main.serve /src/\"x\".go:3\n{} \xff"),
		metric.Info.Of(1, "go1.27.1", "v0.9.0", "checkout", "shop", "Deployment", "node-1"),
	}}
}

// certificates returns a configuration of a server that requires a client certificate, and files for its clients.
func certificates(t *testing.T) (server *tls.Config, ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "loupe test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, data []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cert, key = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", encoded)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	server = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"}}
	return server, cert, cert, key
}

// backEnds runs a test with a receiver in the process by both protocols, and with the Collector in between.
func backEnds(t *testing.T, test func(t *testing.T, o Options, r *testcollector.Receiver)) {
	for protocol, endpoint := range protocols {
		t.Run(protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			test(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(r.HTTP, r.GRPC)}, r)
		})
		t.Run("collector "+protocol, func(t *testing.T) {
			r := testcollector.Receive(t, nil)
			c := testcollector.StartBefore(r)
			test(t, Options{Protocol: protocol, Endpoint: "http://" + endpoint(c.HTTP, c.GRPC)}, r)
		})
	}
}

// exported returns the statistics of a signal that has exported n items and lost none.
func exported(n int) Stats { return Stats{Stats: otlp.Stats{Exported: uint64(n)}} }

func checkStats(t *testing.T, p *Pusher, s Signal, want Stats) {
	t.Helper()
	if got := p.Stats()[s]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %+v, want %+v", s, got, want)
	}
}
