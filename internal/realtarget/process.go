package realtarget

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/child"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testport"
)

const (
	// readyTime is how long a program may take from its start to its first
	// answers on a machine that is busy.
	readyTime = 3 * time.Minute
	// stopTime is how long it may take to end after SIGTERM.
	stopTime = time.Minute
)

// A Process is a running program. Its methods are for the test's goroutine: what
// fails in them fails the test.
type Process struct {
	tb     testing.TB
	spec   Spec
	cmd    *exec.Cmd
	plan   *plan
	log    string // file with what the program printed
	web    *http.Client
	guests []client
	ended  <-chan struct{} // closed when the process was waited for
	err    error           // of the wait; valid once ended is closed
	stop   sync.Once
}

// A plan says how one instance of a program is run and spoken to.
type plan struct {
	args []string
	env  []string
	// pprof is the URL that the profiles are below; metrics that of a
	// Prometheus exposition with go_goroutines, "" when there is none.
	pprof, metrics string
	// access is the file with a line of JSON for each request; "" if the
	// program writes no such file.
	access string
	// ready is a URL that is answered when the program is; "" if that of
	// the profiles is.
	ready string
	// tls is how clients verify the program; nil if it serves without TLS.
	tls *tls.Config
	// serves is the address at which it serves clients, for tests that
	// have clients of their own; "" otherwise.
	serves string
	// monitor is the URL of the pages about the server itself; "" if it has
	// no such pages.
	monitor string
	// connect makes a client of the program.
	connect func(context.Context) (client, error)
	// guests is how many clients stay connected without doing anything, as
	// real servers have them; loaders how many make a good load.
	guests, loaders int
}

// A site is where an instance runs: an empty directory of its own and addresses
// "127.0.0.1:port" on which nobody listens.
type site struct {
	dir   string
	addrs [4]string
	// backend is the address of the server that the program uses.
	backend string
}

// Start runs the program and waits until it answers. It is stopped when the test
// ends; it also ends, by SIGKILL, when the test process does.
func (s Spec) Start(tb testing.TB) *Process {
	tb.Helper()
	return s.StartWith(tb, "")
}

// StartWith is like Start for a program that uses another server. backend is its address, or its URL.
func (s Spec) StartWith(tb testing.TB, backend string) *Process {
	tb.Helper()
	exe := s.Path(tb)
	p, err := s.start(tb, exe, backend)
	if err != nil {
		tb.Fatalf("realtarget: start %s: %v", s.Name, err)
	}
	return p
}

func (s Spec) start(tb testing.TB, exe, backend string) (*Process, error) {
	at := newSite(tb)
	at.backend = backend
	p := &Process{tb: tb, spec: s, log: filepath.Join(at.dir, "log")}
	plan, err := s.plan(at)
	if err != nil {
		return nil, err
	}
	p.plan = plan
	p.web = newTLSClient(p.plan.tls)
	logFile, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	p.cmd = testcmd.Within(tb, 0, exe, p.plan.args...)
	p.cmd.Dir = at.dir
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + at.dir, "TMPDIR=" + at.dir, "LANG=C",
		"XDG_CONFIG_HOME=" + at.dir, "XDG_CACHE_HOME=" + at.dir, "XDG_DATA_HOME=" + at.dir,
	}, p.plan.env...)
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	if err := p.launch(); err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		if p.runs() {
			testcmd.Quit(p.cmd.Process, p.ended) // its output then has the stacks of its goroutines
		}
		err = fmt.Errorf("%w%s", err, p.tail())
		p.end()
		return nil, err
	}
	tb.Cleanup(p.Stop)
	return p, nil
}

// newSite makes a place for one instance: in memory if possible, because programs that wait for a busy disk answer with errors.
func newSite(tb testing.TB) *site {
	at := &site{}
	if dir, err := os.MkdirTemp("/dev/shm", "loupe-realtarget-"); err == nil {
		tb.Cleanup(func() {
			if err := os.RemoveAll(dir); err != nil {
				tb.Error(err)
			}
		})
		at.dir = dir
	} else {
		at.dir = tb.TempDir()
	}
	for i := range at.addrs {
		at.addrs[i] = testport.Address(tb)
	}
	return at
}

// launch starts the process and the goroutine that waits for it.
func (p *Process) launch() (err error) {
	// A group of its own lets Stop find children that outlive the program.
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	p.ended, err = testcmd.StartTied(p.cmd, unix.SIGKILL, func() {
		child.AwaitEnd(p.PID())
		// Until it is waited for, its number stands for its group and no other.
		// The group is gone already when there were no children.
		_ = unix.Kill(-p.PID(), unix.SIGKILL)
		p.err = p.cmd.Wait()
	})
	return err
}

// prepare waits until the program answers and brings the guests.
func (p *Process) prepare() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	steps := []func(context.Context) error{
		func(ctx context.Context) error {
			_, err := fetch(ctx, p.web, cmp.Or(p.plan.ready, p.plan.pprof+"/cmdline"))
			return err
		},
		p.inviteGuests,
	}
	for _, step := range steps {
		for err := step(ctx); err != nil; err = step(ctx) {
			select {
			case <-p.ended:
				return fmt.Errorf("it ended: %w", errors.Join(p.err, err))
			case <-ctx.Done():
				return fmt.Errorf("it is not ready: %w", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

func (p *Process) inviteGuests(ctx context.Context) error {
	for len(p.guests) < p.plan.guests {
		guest, err := p.plan.connect(ctx)
		if err != nil {
			return err
		}
		if err := guest.request(ctx, 0); err != nil {
			guest.close()
			return err
		}
		p.guests = append(p.guests, guest)
	}
	return nil
}

// runs reports whether the program has not ended.
func (p *Process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Pprof returns the URL that the program's net/http/pprof profiles are below,
// without a slash at its end.
func (p *Process) Pprof() string { return p.plan.pprof }

// Stop ends the program by SIGTERM and waits for it. The test fails when the
// program had ended before, does not end, or printed that it crashed. Stopping
// twice is allowed.
func (p *Process) Stop() {
	p.tb.Helper()
	p.stop.Do(func() {
		p.tb.Helper()
		select {
		case <-p.ended:
			p.tb.Errorf("realtarget: %s (pid %d) ended by itself: %v%s", p.spec.Name, p.PID(), p.err, p.tail())
			return
		default:
		}
		if !p.end() {
			p.tb.Errorf("realtarget: %s (pid %d) did not end within %v%s", p.spec.Name, p.PID(), stopTime, p.tail())
		}
		if crash := p.crash(); crash != "" {
			p.tb.Errorf("realtarget: %s (pid %d) crashed: %s", p.spec.Name, p.PID(), crash)
		}
	})
}

// end ends the program and reports whether it did so when it was asked to.
func (p *Process) end() (obeyed bool) {
	for _, guest := range p.guests {
		guest.close()
	}
	p.web.CloseIdleConnections()
	// An error means that it has ended already, which the wait below sees.
	_ = p.cmd.Process.Signal(unix.SIGTERM)
	select {
	case <-p.ended:
		return true
	case <-time.After(stopTime):
		testcmd.Quit(p.cmd.Process, p.ended)
		return false
	}
}

// crash returns what the program printed from a crash on; "" when it did not.
func (p *Process) crash() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	for _, sign := range []string{"\npanic: ", "\nfatal error: ", "\nSIGSEGV: ", "\nunexpected fault address"} {
		if i := strings.Index("\n"+string(text), sign); i >= 0 {
			return string(text[i:min(len(text), i+logTail)])
		}
	}
	return ""
}

// logTail is how much of a program's output a message shows, in bytes.
const logTail = 32 << 10

// tail returns the end of what the program printed, for the end of a message.
func (p *Process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	return "\nits output ends with: " + string(text[max(0, len(text)-logTail):])
}
