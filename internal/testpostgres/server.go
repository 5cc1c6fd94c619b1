package testpostgres

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
)

// A Server is a running PostgreSQL server.
type Server struct {
	Port     int
	User     string // has all permissions, and no password
	Database string

	tb  testing.TB
	log string // file with what the server has printed
}

// account is the user as whom the server runs if the test runs as root, which PostgreSQL refuses.
const account = "postgres"

// startTime is how long the server may take to start.
const startTime = 2 * time.Minute

// Start starts a server on 127.0.0.1 and waits until it accepts connections. It is stopped when the test ends. If the machine has no
// PostgreSQL, the test is skipped.
func Start(tb testing.TB) *Server {
	tb.Helper()
	bin := binaries()
	if bin == "" {
		tb.Skip("requires PostgreSQL (Debian package postgresql)")
	}
	if root, err := os.Stat("/"); err == nil && os.Getuid() == 0 && root.Mode().Perm()&1 == 0 {
		tb.Skipf("%s may not enter the root directory here, its mode is %v", account, root.Mode().Perm())
	}
	dir, err := os.MkdirTemp("", "loupe-postgres-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	s := &Server{tb: tb, Port: testport.Port(tb), User: account, Database: account, log: filepath.Join(dir, "log")}
	as := credential(tb, dir)
	data := filepath.Join(dir, "data")
	initdb := testcmd.Command(tb, filepath.Join(bin, "initdb"), "--no-sync", "--no-instructions", "--auth=trust", "--username="+s.User, "--encoding=UTF8",
		"--locale=C", "--pgdata="+data)
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if status, stdout, stderr := testcmd.Run(tb, initdb); status != 0 {
		tb.Fatalf("initdb: status %d\n%s%s", status, stdout, stderr)
	}
	args := []string{"-D", data, "-p", strconv.Itoa(s.Port)}
	for _, setting := range []string{"listen_addresses=127.0.0.1", "unix_socket_directories=" + dir, "fsync=off", "shared_buffers=16MB", "max_connections=200",
		"log_statement=all", "log_line_prefix=%a|", "autovacuum=off"} {
		args = append(args, "-c", setting)
	}
	s.run(filepath.Join(bin, "postgres"), args, dir, as)
	return s
}

// binaries returns the directory of the newest PostgreSQL that Debian's packages have installed, or an empty path.
func binaries() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	slices.SortFunc(found, func(a, b string) int { return major(a) - major(b) })
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

func major(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// credential returns the user as whom the server runs, to whom the directory then belongs; nil if it is the user of the test.
func credential(tb testing.TB, dir string) *syscall.Credential {
	tb.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup(account)
	if err != nil {
		tb.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		tb.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// run starts the server.
func (s *Server) run(exe string, args []string, dir string, as *syscall.Credential) {
	s.tb.Helper()
	log, err := os.Create(s.log)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	cmd := testcmd.Within(s.tb, 0, exe, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	ended, err := testcmd.StartTied(cmd, syscall.SIGQUIT, func() { _ = cmd.Wait() })
	if err != nil {
		s.tb.Fatal(err)
	}
	s.tb.Cleanup(func() { stop(cmd, ended) })
	if err := s.accepts(ended); err != nil {
		s.tb.Fatalf("PostgreSQL does not start: %v\n%s", err, s.read())
	}
}

// stop ends the server and its processes at once.
func stop(cmd *exec.Cmd, ended <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-ended:
	case <-time.After(startTime):
		_ = cmd.Process.Kill()
		<-ended
	}
}

func (s *Server) accepts(ended <-chan struct{}) error {
	for begin := time.Now(); time.Since(begin) < startTime; time.Sleep(10 * time.Millisecond) {
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
		}
		if bytes.Contains(s.read(), []byte("database system is ready to accept connections")) {
			return nil
		}
	}
	return errors.New("it accepts no connections")
}

func (s *Server) read() []byte {
	s.tb.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		s.tb.Error(err)
	}
	return text
}

// Address returns the host and the port, as in "127.0.0.1:5432".
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// DSN returns a data source name for clients that call themselves by a name.
func (s *Server) DSN(application string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&application_name=%s", s.User, s.Address(), s.Database, application)
}

// Statements returns the statements that clients with a name have executed, in the order in which the server has logged them. Statements
// of several lines are cut after the first one.
func (s *Server) Statements(application string) []string {
	s.tb.Helper()
	var list []string
	for line := range strings.Lines(string(s.read())) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), application+"|LOG:  ")
		if !ok {
			continue
		}
		kind, text, _ := strings.Cut(text, ": ")
		if kind == "statement" || strings.HasPrefix(kind, "execute ") { // or the parameters of one
			list = append(list, text)
		}
	}
	return list
}
