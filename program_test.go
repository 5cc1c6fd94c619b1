package loupe_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestCommand observes programs of every release from their first goroutine on.
func TestCommand(t *testing.T) {
	specs := []testtarget.Spec{{Program: "mill", PIE: true}}
	for _, version := range testtarget.Versions() {
		specs = append(specs, testtarget.Spec{Program: "mill", Go: version})
	}
	for _, spec := range specs {
		t.Run(spec.String(), func(t *testing.T) {
			cmd := testcmd.Command(t, testtarget.Build(t, spec))
			cmd.Stdin = strings.NewReader("spawn 500\nquit\n")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			s, err := attachTo(context.Background(), loupe.Command(cmd), loupe.Options{System: true})
			if err != nil {
				t.Fatal(err)
			}
			c := newChecker()
			var first event.Event
			for ev := range s.Events() {
				if first.Kind == 0 && ev.Kind == event.GoCreate {
					first = *ev
				}
				c.add(ev)
			}
			if err := s.Err(); err != nil {
				t.Error(err)
			}
			if status, ok := s.ExitStatus(); status != 0 || !ok {
				t.Errorf("exit status %d, %v", status, ok)
			}
			c.stats = s.Stats()
			c.expectSound(t)
			if first.G != 1 || first.Origin == nil || first.Origin.Start.Func != "runtime.main" {
				t.Errorf("the first goroutine is %+v", first)
			}
			c.expectAtLeast(t, event.GoCreate, 500)
			if !strings.Contains(out.String(), "spawn 500") {
				t.Errorf("the program says %q", out.String())
			}
		})
	}
}

// TestCommandThatCannotBe starts what cannot be observed. Nothing is left of it.
func TestCommandThatCannotBe(t *testing.T) {
	for name, test := range map[string]struct {
		cmd  *exec.Cmd
		want error
	}{
		"missing":   {testcmd.Command(t, "/no/such/program"), os.ErrNotExist},
		"not Go":    {testcmd.Command(t, "sleep", "1000"), loupe.ErrNotGo},
		"directory": {testcmd.Command(t, t.TempDir()), os.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := attachTo(context.Background(), loupe.Command(test.cmd), loupe.Options{})
			if err == nil {
				s.Close()
				t.Fatal("attached")
			}
			if !errors.Is(err, test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %v", err, test.want)
			}
			if p := test.cmd.ProcessState; test.cmd.Process != nil && p == nil {
				t.Error("the program was not waited for")
			}
		})
	}
}
