package main

import (
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// commandWatcher is a command of Loupe that runs beside the target.
type commandWatcher struct {
	cmd *exec.Cmd
}

// commandWay observes by a command of Loupe, whose output nobody keeps.
func commandWay(name string, args ...string) way {
	return way{name, func(b *bench, t *target, cpu int) (watcher, error) {
		exe, err := program.Build(b.dir, "./cmd/loupe")
		if err != nil {
			return nil, err
		}
		w := &commandWatcher{cmd: exec.Command(exe, append(args, fmt.Sprint(t.PID()))...)}
		if err := startOn(cpu, w.cmd); err != nil {
			return nil, err
		}
		time.Sleep(time.Second) // to attach
		return w, nil
	}}
}

func (w *commandWatcher) begin() error { return nil }

// end ends the command, and returns its processor time, the little that it takes to attach included.
func (w *commandWatcher) end() (s seen, err error) {
	if err := w.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return s, err
	}
	if err := w.cmd.Wait(); err != nil {
		return s, fmt.Errorf("%s: %w", w.cmd, err)
	}
	s.cpu = w.cmd.ProcessState.UserTime() + w.cmd.ProcessState.SystemTime()
	return s, nil
}

func (w *commandWatcher) close() error { return nil }

// recordingWays are compared with the first.
var recordingWays = []way{
	commandWay("loupe trace, as text", "trace", "-q"),
	commandWay("loupe trace --json", "trace", "-q", "--json"),
	commandWay("loupe record", "record", "-q", "-o", "/dev/null"),
	commandWay("loupe record --last 30s", "record", "-q", "-o", "/dev/null", "--last", "30s"),
	commandWay("loupe record --format perfetto", "record", "-q", "-o", "/dev/null", "--format", "perfetto"),
	commandWay("loupe record --format chrome", "record", "-q", "-o", "/dev/null", "--format", "chrome"),
}

// recording prints what commands that write all events use.
func (b *bench) recording() error {
	t, err := b.start(website)
	if err != nil {
		return err
	}
	defer t.Kill()
	results, _, err := b.visits(website, t, recordingWays)
	if err != nil {
		return err
	}
	fmt.Println("Commands that write the events of a server under wrk to /dev/null.")
	fmt.Println()
	header("way", "requests/s", "relative to alone", "server's processor time a request", "the command's", "both, relative to the first row")
	both := func(v visit) float64 { return v.with.cpu + float64(v.cpu.Nanoseconds())/float64(v.with.Requests) }
	for i, w := range recordingWays {
		r := results[i]
		row(w.name, number(median(r, func(v visit) float64 { return v.with.Rate })),
			percent(median(r, func(v visit) float64 { return v.with.Rate / v.alone })),
			duration(median(r, func(v visit) float64 { return v.with.cpu })),
			duration(median(r, func(v visit) float64 { return float64(v.cpu.Nanoseconds()) / float64(v.with.Requests) })),
			fmt.Sprintf("%.2f", median(r, both)/median(results[0], both)))
	}
	return nil
}
