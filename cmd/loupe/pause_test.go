package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestPauseOfOwnProgram pauses a program that Loupe has started itself: it is the program's parent and its tracer.
func TestPauseOfOwnProgram(t *testing.T) {
	zoo := testtarget.Build(t, testtarget.Spec{Program: "zoo", Go: testtarget.Latest(), Stripped: true})
	testcmd.UntilSeen(t, time.Second, func(after time.Duration) error {
		cmd := testcmd.Command(t, loupe, "goroutines", "--pause", "--json", "--after", after.String(), "--", zoo)
		stdin, stdout := startPiped(t, cmd)
		var list struct {
			Paused     bool
			Goroutines []struct{ BestEffort bool }
		}
		if err := json.NewDecoder(stdout).Decode(&list); err != nil {
			t.Fatal(err)
		}
		stdin.Close() // the program ends, and Loupe with it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if !list.Paused {
			t.Error("the program was not paused")
		}
		if len(list.Goroutines) < 50 {
			return fmt.Errorf("%d goroutines after %v", len(list.Goroutines), after)
		}
		return nil
	})
}

// TestKilledWhilePaused kills Loupe at different moments of a pause. The target must go on every time.
func TestKilledWhilePaused(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "coder"}))
	begin := time.Now()
	for delay := 2 * time.Millisecond; delay < 80*time.Millisecond; delay += 3 * time.Millisecond {
		cmd := testcmd.Command(t, loupe, "goroutines", "--pause", fmt.Sprint(target.PID()))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay)
		cmd.Process.Kill()
		cmd.Wait()
		// A target that stands still would not answer at all; one whose workers did would answer the same for ever.
		before := strings.Fields(target.Command("ops"))[1]
		for strings.Fields(target.Command("ops"))[1] == before {
			if t.Context().Err() != nil || time.Since(begin) > patience {
				t.Fatalf("killed after %v: the target stands still", delay)
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// TestSuspendedWhilePaused suspends Loupe, as Ctrl-Z and a background job's write to the terminal do, while it has stopped
// the target: Loupe is suspended only when the target runs again.
func TestSuspendedWhilePaused(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "flood"}), "20000", "1")
	for _, signal := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		began := time.Now()
		err := suspendWhilePaused(t, target.PID(), signal)
		for errors.Is(err, errEarly) && time.Since(began) < patience {
			err = suspendWhilePaused(t, target.PID(), signal)
		}
		if err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

// suspendWhilePaused sends a signal to a Loupe that has stopped the target. The error is errEarly if Loupe was over with it
// before: the test was too slow to see it.
func suspendWhilePaused(t *testing.T, target int, signal syscall.Signal) error {
	t.Helper()
	cmd := testcmd.Command(t, loupe, "goroutines", "--pause", "--json", fmt.Sprint(target))
	ended, kill, err := startKillable(cmd)
	if err != nil {
		return err
	}
	defer kill()
	err = await(ended, "the target to be paused", func() (bool, error) { return stateOf(target) == 't', nil })
	if err == nil {
		cmd.Process.Signal(signal)
		err = await(ended, "Loupe to be suspended", func() (bool, error) { return stateOf(cmd.Process.Pid) == 'T', nil })
	}
	if errors.Is(err, errEnded) {
		return fmt.Errorf("%w: %w", errEarly, err)
	}
	if err != nil {
		return err
	}
	if s := stateOf(target); s == 'T' || s == 't' {
		err = fmt.Errorf("Loupe is suspended, the target is in state %c", s)
	}
	cmd.Process.Signal(syscall.SIGCONT)
	<-ended
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		err = errors.Join(err, fmt.Errorf("status %d", status))
	}
	return err
}
