package loupe_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/inline"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPIDNamespace observes from within a PID namespace, as in a container: processes have other numbers there than the
// kernel's own.
func TestPIDNamespace(t *testing.T) {
	if path := os.Getenv("LOUPE_TEST_MILL"); path != "" {
		observeInNamespace(t, path)
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
	inside := testcmd.Command(t, "unshare", "--pid", "--fork", "--mount-proc", "--propagation", "unchanged", os.Args[0], "-test.run=^TestPIDNamespace$", "-test.v")
	inside.Env = append(os.Environ(), "LOUPE_TEST_MILL="+testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	out, err := testcmd.Combined(inside)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPIDNamespace") {
		t.Errorf("%v\n%s", err, out)
	}
}

func observeInNamespace(t *testing.T, mill string) {
	t.Run("started", func(t *testing.T) {
		cmd := testcmd.Command(t, mill)
		cmd.Stdin = strings.NewReader("spawn 200\nquit\n")
		s, err := attachTo(context.Background(), loupe.Command(cmd), loupe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := newChecker()
		for ev := range s.Events() {
			c.add(ev)
		}
		c.stats = s.Stats()
		c.expectSound(t)
		c.expect(t, event.GoCreate, 200, 20)
	})
	t.Run("running", func(t *testing.T) {
		p := testtarget.Start(t, mill)
		if p.PID() > 1000 {
			t.Errorf("process %d: this is no namespace of its own", p.PID())
		}
		time.AfterFunc(2*time.Minute, p.Kill)
		c := during(t, p, loupe.Options{}, "spawn 200")
		c.expectSound(t)
		c.expect(t, event.GoCreate, 200, 20)
	})
}

// TestBlockedInNamespace observes a target in a PID namespace of its own by engine inline while the consumer of its events is
// blocked. From within that namespace the engine must be taken for alive: otherwise its code could be removed there.
func TestBlockedInNamespace(t *testing.T) {
	if os.Getenv("LOUPE_TEST_INSIDE") != "" {
		notes, err := inline.Look(1)
		for begin := time.Now(); err == nil && notes != nil && !notes.Alive() && time.Since(begin) < time.Minute; { // it may have stood still
			time.Sleep(100 * time.Millisecond)
			notes, err = inline.Look(1)
		}
		if err != nil || notes == nil || !notes.Alive() {
			t.Errorf("the engine is taken for dead: %+v, %v", notes, err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
	if out, err := testcmd.Combined(testcmd.Command(t, "unshare", "--mount", "true")); err != nil {
		t.Skipf("no private mounts can be made here, as in a chroot: %s", out)
	}
	cmd := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	p := testtarget.StartCmd(t, cmd)
	s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()), loupe.Options{Engine: loupe.EngineInline})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	blocked, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for range s.Events() {
			<-blocked
		}
	}()
	time.Sleep(2 * inline.Silence)
	inside := testcmd.Command(t, "nsenter", "--pid", "--target", fmt.Sprint(p.PID()), "unshare", "--mount", "--mount-proc",
		os.Args[0], "-test.run=^TestBlockedInNamespace$", "-test.v")
	inside.Env = append(os.Environ(), "LOUPE_TEST_INSIDE=1")
	if out, err := testcmd.Combined(inside); err != nil || !strings.Contains(string(out), "--- PASS: TestBlockedInNamespace") {
		t.Errorf("%v\n%s", err, out)
	}
	close(blocked)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-done
}
