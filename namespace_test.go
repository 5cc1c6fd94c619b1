package loupe_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
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
		s, err := loupe.Attach(context.Background(), loupe.Command(cmd), loupe.Options{})
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
		time.AfterFunc(20*time.Second, p.Kill)
		c := during(t, p, loupe.Options{}, "spawn 200")
		c.expectSound(t)
		c.expect(t, event.GoCreate, 200, 20)
	})
}
