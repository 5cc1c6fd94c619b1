package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/glti"
	"github.com/loupe-go/loupe/glti/observe/wire"
)

const (
	// maxClients is the maximum number of connections at a time.
	maxClients = 4
	// pause is the time between two attempts to accept a connection after an error, such as a limit of open files.
	pause = 100 * time.Millisecond
)

// agent listens for clients.
type agent struct {
	listener net.Listener
	path     string

	mu    sync.Mutex
	conns map[*conn]bool
	ended bool
}

// start listens on a path, or on the default one if it is empty.
func start(path string) (*agent, error) {
	if glti.BuiltBy() != "loupe go" {
		return nil, errors.New("cannot observe a program that the go command has built by itself; build it with loupe go build")
	}
	if path == "" {
		dir, err := makeDir()
		if err != nil {
			return nil, err
		}
		removeStale(dir)
		path = filepath.Join(dir, strconv.Itoa(os.Getpid())+".sock")
		os.Remove(path) // of an earlier process with the same ID
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	a := &agent{listener: l, path: path, conns: map[*conn]bool{}}
	go a.accept()
	return a, nil
}

// dirName returns the directory of the sockets.
func dirName() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "loupe")
	}
	name := "loupe"
	if uid := os.Getuid(); uid >= 0 {
		name += "-" + strconv.Itoa(uid)
	}
	return filepath.Join(os.TempDir(), name)
}

// makeDir makes the directory of the sockets, which only the user may enter.
func makeDir() (string, error) {
	dir := dirName()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || !private(info) {
		return "", fmt.Errorf("%s is not a directory that only this user may enter; set %s to the path of a socket in one", dir, Variable)
	}
	return dir, nil
}

// removeStale removes the sockets of processes that do not exist any more: nobody listens on them.
func removeStale(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		pid, isSocket := strings.CutSuffix(e.Name(), ".sock")
		if _, err := strconv.Atoi(pid); err != nil || !isSocket {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if c, err := net.DialTimeout("unix", path, pause); err == nil {
			c.Close()
		} else if refused(err) {
			os.Remove(path)
		}
	}
}

// accept serves clients until the listener is closed.
func (a *agent) accept() {
	glti.Quiet()
	for {
		c, err := a.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pause)
			continue
		}
		go a.serve(c)
	}
}

// serve serves a client.
func (a *agent) serve(nc net.Conn) {
	defer nc.Close()
	if err := checkPeer(nc); err != nil {
		refuse(nc, err.Error())
		return
	}
	c := newConn(nc)
	if !a.add(c) {
		refuse(nc, fmt.Sprintf("the agent has its maximum of clients: %d", maxClients))
		return
	}
	defer a.remove(c)
	c.run()
}

func refuse(nc net.Conn, why string) {
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	nc.Write(wire.Append(nil, &wire.Refused{Why: why}))
}

func (a *agent) add(c *conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || len(a.conns) >= maxClients {
		return false
	}
	a.conns[c] = true
	return true
}

func (a *agent) remove(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.conns, c)
}

// end removes the socket and sends the exit code of the program to the clients.
func (a *agent) end(code int) {
	a.listener.Close() // removes the socket
	a.mu.Lock()
	a.ended = true
	var conns []*conn
	for c := range a.conns {
		conns = append(conns, c)
	}
	a.mu.Unlock()
	for _, c := range conns {
		c.end(code)
	}
}
