package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// attach prints how long it takes to attach to running programs, in a new process each time. Cold is with what can be
// dropped of the executable dropped from the page cache: what the program itself has mapped stays.
func (b *bench) attach() error {
	small, err := b.build("pingpong")
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	servers, err := filepath.Glob(filepath.Join(cache, "loupe-bench", "kube-apiserver-*", "kube-apiserver*"))
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return fmt.Errorf("kube-apiserver is missing: build it with go run ./bench/analyze")
	}
	header("executable", "size", "page cache", "goroutines", "attach", "start to first event", "detach")
	if err := b.attachTo(small, b.startSmall); err != nil {
		return err
	}
	for _, exe := range servers {
		if err := b.attachTo(exe, b.startServer(exe)); err != nil {
			return err
		}
	}
	return nil
}

// attachTo measures one executable; start runs it.
func (b *bench) attachTo(exe string, start func() (pid int, stop func(), err error)) error {
	st, err := os.Stat(exe)
	if err != nil {
		return err
	}
	var cold, warm []attachTimes
	for range b.rounds {
		pid, stop, err := start()
		if err != nil {
			return err
		}
		for _, times := range []*[]attachTimes{&cold, &warm} {
			if times == &cold {
				err = forget(exe)
			}
			if err != nil {
				break
			}
			var at attachTimes
			if at, err = b.attachOnce(pid); err != nil {
				break
			}
			*times = append(*times, at)
		}
		stop()
		if err != nil {
			return err
		}
	}
	for _, r := range []struct {
		cache string
		times []attachTimes
	}{{"cold", cold}, {"warm", warm}} {
		row(filepath.Base(exe), fmt.Sprintf("%d MB", st.Size()>>20), r.cache,
			number(median(r.times, func(at attachTimes) float64 { return float64(at.Alive) })),
			duration(median(r.times, func(at attachTimes) float64 { return float64(at.Attach) })),
			duration(median(r.times, func(at attachTimes) float64 { return float64(at.First) })),
			duration(median(r.times, func(at attachTimes) float64 { return float64(at.Close) })))
	}
	return nil
}

// attachOnce attaches in a new process.
func (b *bench) attachOnce(pid int) (at attachTimes, err error) {
	cmd := exec.Command(b.self, "-attach", fmt.Sprint(pid), "-started", fmt.Sprint(monotonic()))
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := startOn(anywhere, cmd); err != nil {
		return at, err
	}
	if err := cmd.Wait(); err != nil {
		return at, fmt.Errorf("attaching: %w", err)
	}
	return at, json.Unmarshal(out.Bytes(), &at)
}

func (b *bench) startSmall() (int, func(), error) {
	t, err := b.startTarget("pingpong", 1, anywhere)
	if err != nil {
		return 0, nil, err
	}
	return t.PID(), t.Kill, nil
}

// waiting is what the API server says when it is complete but for its database.
const waiting = "createTransport failed to connect"

// startServer returns a function that starts a Kubernetes API server. It runs without a database, which it tries to reach
// for twenty seconds.
func (b *bench) startServer(exe string) func() (int, func(), error) {
	return func() (int, func(), error) {
		key := filepath.Join(b.dir, "key.pem")
		if err := writeKey(key); err != nil {
			return 0, nil, err
		}
		port, err := freePort()
		if err != nil {
			return 0, nil, err
		}
		cmd := exec.Command(exe, "--etcd-servers=http://127.0.0.1:1", "--service-account-issuer=https://localhost",
			"--service-account-key-file="+key, "--service-account-signing-key-file="+key, "--cert-dir="+b.dir,
			"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--bind-address=127.0.0.1",
			"--advertise-address=127.0.0.1", "--secure-port="+port)
		log, err := cmd.StderrPipe()
		if err != nil {
			return 0, nil, err
		}
		if err := startOn(anywhere, cmd); err != nil {
			return 0, nil, err
		}
		stop := func() {
			cmd.Process.Kill()
			cmd.Wait()
		}
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if strings.Contains(lines.Text(), waiting) {
				go func() { // it must not wait for a reader
					for lines.Scan() {
					}
				}()
				return cmd.Process.Pid, stop, nil
			}
		}
		stop()
		return 0, nil, fmt.Errorf("%s ended before it was ready", exe)
	}
}

// freePort returns a port on which nobody listens.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// writeKey makes the key that the API server signs tokens with.
func writeKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
}

// forget drops what can be dropped of a file from the page cache.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
