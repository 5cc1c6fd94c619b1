package testkube

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// A Server is an API server of Kubernetes with an etcd of its own. Authorization is RBAC. It is for the test's goroutine.
type Server struct {
	URL string // as in "https://127.0.0.1:6443"

	tb    testing.TB
	exe   string
	dir   string // with keys, certificates, tokens and the log
	etcd  string // address
	admin string // token of a user that may do everything
	key   *signingKey
	web   *http.Client
	cmd   *exec.Cmd
	ended <-chan struct{}
}

// issuer is what the tokens of service accounts name as their issuer.
const issuer = "https://kubernetes.default.svc"

// patience is how long the server may take to start on a machine that is busy.
const patience = 3 * time.Minute

// Start starts an etcd and an API server and waits until it is ready. Both are stopped when the test ends. The test is left out if
// not run by make kube, see [testtarget.Kube].
func Start(tb testing.TB) *Server {
	tb.Helper()
	testtarget.Kube(tb, "the API server of Kubernetes")
	s := &Server{tb: tb, exe: Path(tb), dir: tb.TempDir(), admin: "admin-of-the-test"}
	for _, spec := range realtarget.Programs() {
		if spec.Name == "etcd" {
			s.etcd = spec.Start(tb).Address()
		}
	}
	s.URL = "https://" + testport.Address(tb)
	s.key = newSigningKey(tb, s.file("service-account.key"))
	s.write("tokens.csv", s.admin+`,admin,1,"system:masters"`+"\n")
	s.Restart()
	return s
}

// Path returns the executable of the API server. It is built if the cache does not have it.
func Path(tb testing.TB) string {
	tb.Helper()
	cmd := testcmd.Command(tb, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/loupe-go/loupe")
	root, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "internal", "testkube", "apiserver")
	quick := []string{"k8s.io/kubernetes/...", "k8s.io/apiserver/...", "k8s.io/apiextensions-apiserver/...", "k8s.io/kube-aggregator/..."}
	return realtarget.Spec{Name: "kube-apiserver", Source: realtarget.Tree{Dir: dir, Quick: quick}}.Path(tb)
}

// Restart starts the server after [Server.Kill], with the same address, keys and data, and waits until it is ready.
func (s *Server) Restart() {
	s.tb.Helper()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		s.tb.Fatal(err)
	}
	s.cmd = testcmd.Within(s.tb, 0, s.exe,
		"--etcd-servers=http://"+s.etcd, "--bind-address="+host, "--secure-port="+port, "--advertise-address=127.0.0.1",
		"--cert-dir="+s.file("certs"), "--token-auth-file="+s.file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer="+issuer, "--service-account-key-file="+s.file("service-account.key"),
		"--service-account-signing-key-file="+s.file("service-account.key"), "--service-cluster-ip-range=10.0.0.0/24",
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount", // no controller creates the account of each namespace
	)
	s.cmd.Dir = s.dir
	log, err := os.OpenFile(s.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if s.ended, err = testcmd.StartTied(s.cmd, syscall.SIGKILL, func() { _ = s.cmd.Wait() }); err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(s.Kill) // before the deadline of the command, which is the end of the test
	if err := s.await(); err != nil {
		s.tb.Fatalf("the API server does not start: %v\n%s", err, s.log())
	}
}

// Kill ends the server by SIGKILL. It can be called twice.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it fails if the server has ended
	<-s.ended
	if s.web != nil {
		s.web.CloseIdleConnections()
	}
	s.cmd = nil
}

// await waits until the server is ready.
func (s *Server) await() (err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s.web, err = s.newClient(); err == nil {
			if _, err = s.request(http.MethodGet, "/readyz", nil); err == nil {
				return nil
			}
		}
		select {
		case <-s.ended:
			return fmt.Errorf("it has ended: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return err
}

// log returns the end of what the server has printed.
func (s *Server) log() []byte {
	const most = 16 << 10
	text, _ := os.ReadFile(s.file("log"))
	return text[max(0, len(text)-most):]
}

// file returns the path of a file of the server.
func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) write(name, text string) string {
	s.tb.Helper()
	if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	return s.file(name)
}
