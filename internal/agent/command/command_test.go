package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// asAgent makes this test executable an agent that prints the node and each reload.
const asAgent = "LOUPE_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		os.Exit(Main(Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, reporter))
	}
	goleak.VerifyTestMain(m)
}

// reporter writes a line for each thing that happens, until it is to end.
func reporter(ctx context.Context, s *Start) error {
	os.Stdout.WriteString("started " + s.Config.Node + "\n")
	s.Watch(ctx, func(r config.Reload) {
		if r.Err != nil {
			os.Stdout.WriteString("error " + r.Err.Error() + "\n")
			return
		}
		os.Stdout.WriteString("loaded\n")
		for _, c := range append(r.Changes, r.Restart...) {
			os.Stdout.WriteString(c.String() + "\n")
		}
	})
	os.Stdout.WriteString("ended\n")
	return nil
}

type result struct {
	status   int
	out, err string
	started  *Start
}

// run runs a command line, whose agent returns an error at once.
func run(t *testing.T, environ []string, fail error, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	var r result
	r.status = execute(context.Background(), Env{Args: args, Environ: environ, Stdout: &out, Stderr: &errs}, nil,
		func(_ context.Context, s *Start) error {
			r.started = s
			return fail
		})
	r.out, r.err = out.String(), errs.String()
	return r
}

func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("sampling: {events_per_second: 0}\nnodes: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args     []string
		fail     error
		status   int
		out, err string // a part
	}{
		{nil, nil, 0, "", ""},
		{nil, errors.New("cannot listen\x1b"), 1, "", "loupe-agent: cannot listen\\x1b\n"},
		{[]string{"--version"}, nil, 0, "loupe-agent (devel)", ""},
		{[]string{"--help"}, nil, 0, "--set key=value", ""},
		{[]string{"serve"}, nil, 2, "", "loupe-agent: unexpected argument \"serve\"; see loupe-agent --help\n"},
		{[]string{"--confg", "x"}, nil, 2, "", "loupe-agent: unknown flag: --confg; see loupe-agent --help\n"},
		{[]string{"--set", "x"}, nil, 2, "", "must have the form KEY=VALUE"},
		{[]string{"--set", "x=y", "--node", "-"}, nil, 2, "", "--node: must be the name of a machine: letters, digits, dots and dashes, is \"-\"\n" +
			"--set x: unknown key \"x\"\nloupe-agent: invalid configuration: 2 problems\n"},
		{[]string{"--config", file}, nil, 2, "", file + ":1: sampling.events_per_second: must be 1 to 10000000, is \"0\"\n" +
			file + ":2: unknown key \"nodes\", did you mean node?\nloupe-agent: invalid configuration: 2 problems\n"},
		{[]string{"--config", file + "x"}, nil, 1, "", "loupe-agent: cannot read the configuration: stat " + file + "x: no such file or directory\n"},
		{[]string{"--check", "--node", "a", "--listen", "localhost:1", "--log-level=warn", "--set", "recordings.seconds=5"}, nil, 0,
			"    listen: \"localhost:1\"                   # --listen\n",
			"loupe-agent: warning: --set recordings.seconds: recordings.seconds: has no effect without recordings.directory\n"},
		{[]string{"--check"}, nil, 0, "node: worker-1                              # environment: NODE_NAME\n", ""},
	} {
		r := run(t, []string{"NODE_NAME=worker-1"}, test.fail, test.args...)
		if r.status != test.status || !strings.Contains(r.out, test.out) || !strings.Contains(r.err, test.err) || test.err == "" && r.err != "" {
			t.Errorf("%q: status %d\n%s\n%s", test.args, r.status, r.out, r.err)
		}
		if starts := len(test.args) == 0; starts != (r.started != nil) {
			t.Errorf("%q: started %v", test.args, r.started)
		}
	}
	r := run(t, []string{"NODE_NAME=worker-1"}, nil, "--node=a", "--set=tracing.profiles=cpu,heap")
	if c := r.started.Config; c.Node != "a" || len(c.Tracing.Profiles) != 2 {
		t.Errorf("%+v", c)
	}
}

func TestHelp(t *testing.T) {
	help := run(t, nil, nil, "--help").out
	for flag := range config.FlagPaths() {
		if usages[flag] == "" || !strings.Contains(help, "--"+flag+" ") {
			t.Errorf("no help for --%s:\n%s", flag, help)
		}
	}
	for line := range strings.SplitSeq(help, "\n") {
		if len(line) > 90 {
			t.Errorf("a long line: %s", line)
		}
	}
}

// TestSignals runs a process: SIGHUP loads the file again, also before the agent watches; SIGTERM ends it.
func TestSignals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write := func(doc string) {
		t.Helper()
		if err := os.WriteFile(file+"~", []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
	}
	write("node: a\n")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Command(t, exe, "--config", file)
	cmd.Env = append(os.Environ(), asAgent+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q", lines.Text(), want)
		}
	}
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	expect("started a")
	signal(syscall.SIGHUP)
	expect("loaded")
	write("node: a\nlog: {level: debug}\n")
	expect("loaded")
	expect("log.level: debug, was info")
	write("node: a\nlog: {level: loud}\n")
	expect("error " + file + `:2: log.level: must be debug, info, warn or error, is "loud"`)
	signal(syscall.SIGTERM)
	expect("ended")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
