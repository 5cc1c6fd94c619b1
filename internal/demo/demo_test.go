package demo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// roleEnv makes this test executable play another part: the sample program, or a parent of it that is about to be killed.
const roleEnv = "LOUPE_DEMO_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "program":
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "parent":
		os.Setenv(roleEnv, "program")
		p, err := Start(context.Background(), "/proc/self/exe")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		select {} // until killed
	default:
		os.Exit(m.Run())
	}
}

func TestStartAndStop(t *testing.T) {
	t.Setenv(roleEnv, "program")
	p, err := Start(t.Context(), "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := syscall.Kill(p.PID(), 0); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		t.Fatal("the program goes on without its parent")
	}
	if state := p.cmd.ProcessState; !state.Success() {
		t.Errorf("the program ended with %v", state)
	}
}

func TestStopEndsAHangingProgram(t *testing.T) {
	t.Setenv(roleEnv, "program")
	p, err := Start(t.Context(), "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if err := syscall.Kill(p.PID(), 0); err != syscall.ESRCH {
		t.Errorf("the stopped program is still there: %v", err)
	}
}

func TestProgramEndsWithAKilledParent(t *testing.T) {
	parent := testcmd.Command(t, "/proc/self/exe")
	parent.Env = append(os.Environ(), roleEnv+"=parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		parent.Process.Kill()
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	for deadline := time.Now().Add(time.Minute); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d outlives its parent", pid)
		}
	}
}

// runs reports whether a process is there and no zombie, which nobody may collect in a container.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestStartOfSomethingElse(t *testing.T) {
	for _, test := range []struct {
		path, want string
	}{
		{"/does/not/exist", "no such file"},
		{"/bin/true", "EOF"},
		{"/bin/pwd", "unexpected output"},
	} {
		if _, err := Start(t.Context(), test.path); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("Start(%q): %v, want %q", test.path, err, test.want)
		}
	}
}

func TestStartIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, "/bin/cat"); err == nil {
		t.Error("a program that never gets ready was started")
	}
}
