package redis_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
)

// servers are Redis servers that a test has started.
type servers struct {
	main, socket    string // the address and the socket of a server
	cluster, second string // the addresses of the nodes of a cluster; the second one has the slots from 12000 to 12999
	other, sentinel string // the addresses of others; empty if they do not run
}

// start starts a server and waits until it answers. It returns its address.
func start(t *testing.T, port string, args ...string) string {
	t.Helper()
	cmd := testcmd.Command(t, "redis-server", args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	addr := "127.0.0.1:" + port
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if answer, err := ask(addr, "PING"); err == nil && answer == "+PONG" {
			return addr
		}
		if time.Now().After(end) {
			t.Fatalf("redis-server %s does not answer", strings.Join(args, " "))
		}
	}
}

// ask sends a command to a server, and returns the first line of its answer.
func ask(addr, command string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "%s\r\n", command)
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

// startServers starts a server and, if several is set, another one, a cluster of two nodes, and a sentinel of the first one.
func startServers(t *testing.T, several bool) *servers {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("requires redis-server (Debian package redis-server)")
	}
	dir := t.TempDir()
	s := &servers{socket: filepath.Join(dir, "socket")}
	options := func(port string, more ...string) []string {
		return append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no", "--dir", dir, "--enable-debug-command", "yes",
			"--loglevel", "warning"}, more...)
	}
	port := strconv.Itoa(testport.Port(t))
	s.main = start(t, port, options(port, "--unixsocket", s.socket)...)
	if !several {
		return s
	}
	s.sentinel = startSentinel(t, dir, port)
	port = strconv.Itoa(testport.Port(t))
	s.other = start(t, port, options(port)...)
	bus := strconv.Itoa(testport.Port(t))
	for i, addr := range []*string{&s.cluster, &s.second} {
		port := strconv.Itoa(testport.Port(t))
		own := bus
		if i > 0 {
			own = strconv.Itoa(testport.Port(t))
		}
		*addr = start(t, port, options(port, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(dir, "nodes-"+port), "--cluster-port", own,
			"--cluster-announce-ip", "127.0.0.1")...)
	}
	_, port, _ = net.SplitHostPort(s.cluster)
	for _, c := range [][2]string{{s.cluster, "CLUSTER ADDSLOTSRANGE 0 11999 13000 16383"}, {s.second, "CLUSTER ADDSLOTSRANGE 12000 12999"},
		{s.second, "CLUSTER MEET 127.0.0.1 " + port + " " + bus}} {
		if answer, err := ask(c[0], c[1]); err != nil || answer != "+OK" {
			t.Fatal(c, answer, err)
		}
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		answer, _ := ask(s.cluster, "GET k")
		if also, _ := ask(s.second, "GET foo"); answer == "$-1" && also == answer {
			return s
		} else if time.Now().After(end) {
			t.Fatal("the cluster is down: ", answer)
		}
	}
}

// startSentinel starts a sentinel of the server at a port.
func startSentinel(t *testing.T, dir, of string) string {
	t.Helper()
	port, config := strconv.Itoa(testport.Port(t)), filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 1\n", port, dir, of)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return start(t, port, config, "--sentinel")
}

// clear removes all values.
func (s *servers) clear(t *testing.T) {
	t.Helper()
	for _, addr := range []string{s.main, s.cluster, s.second, s.other} {
		if addr == "" {
			continue
		}
		if answer, err := ask(addr, "FLUSHALL"); err != nil || answer != "+OK" {
			t.Fatal(answer, err)
		}
	}
}
