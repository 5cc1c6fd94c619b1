package config

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watched starts Watch on a file. next returns the next report.
func watched(t *testing.T, file string, poll time.Duration) (next func() Reload, hangups chan os.Signal) {
	t.Helper()
	s := Source{File: file}
	running, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	reports, done := make(chan Reload, 16), make(chan bool)
	hangups = make(chan os.Signal, 1)
	w := &watch{source: s, running: running, doc: running.doc, report: func(r Reload) { reports <- r }, settle: 20 * time.Millisecond,
		atMost: 200 * time.Millisecond, poll: poll}
	go func() {
		defer close(done)
		w.run(ctx, hangups)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if len(reports) > 0 {
			t.Errorf("one more report: %+v", <-reports)
		}
	})
	return func() Reload {
		t.Helper()
		select {
		case r := <-reports:
			return r
		case <-time.After(time.Minute):
			t.Fatal("no report")
			return Reload{}
		}
	}, hangups
}

func write(t *testing.T, file, doc string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace writes a file as editors do.
func replace(t *testing.T, file, doc string) {
	t.Helper()
	write(t, file+"~", doc)
	if err := os.Rename(file+"~", file); err != nil {
		t.Fatal(err)
	}
}

const never = time.Hour

func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "node: a\n")
	next, hangups := watched(t, file, never)

	replace(t, file, "node: a\nsampling: {events_per_second: 5}\n")
	if r := next(); r.Err != nil || r.Config.Sampling.EventsPerSecond != 5 || len(r.Changes) != 1 || len(r.Restart) != 0 {
		t.Errorf("%+v", r)
	}
	write(t, filepath.Join(filepath.Dir(file), "other"), "x") // is not reported

	replace(t, file, "node: a\nsampling: {events_per_second: 0}\n")
	if r := next(); r.Config != nil || r.Err == nil || !strings.Contains(r.Err.Error(), "c.yaml:2: sampling.events_per_second") {
		t.Errorf("%+v", r)
	}

	// What requires a restart is reported, and reported again as long as the file has it.
	for _, rate := range []string{"6", "7"} {
		replace(t, file, "node: b\nsampling: {events_per_second: "+rate+"}\n")
		r := next()
		if r.Err != nil || r.Config.Node != "a" || len(r.Changes) != 1 || len(r.Restart) != 1 || r.Restart[0].String() != "node: b, was a" {
			t.Errorf("%+v", r)
		}
		if got := r.Config.Origin("node").Line; got != 1 {
			t.Errorf("origin %d", got)
		}
	}

	hangups <- syscall.SIGHUP
	if r := next(); r.Err != nil || len(r.Changes) != 0 || r.Config.Sampling.EventsPerSecond != 7 {
		t.Errorf("%+v", r)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if r := next(); r.Config != nil || r.Err == nil || !strings.Contains(r.Err.Error(), "no such file") {
		t.Errorf("%+v", r)
	}
	write(t, file, "node: a\n")
	r := next()
	if r.Err == nil && r.Config.Sampling.EventsPerSecond == 2000 && r.Config.Node == "a" {
		return
	}
	if r = next(); r.Err != nil || r.Config.Sampling.EventsPerSecond != 2000 { // the first was of the empty file
		t.Errorf("%+v", r)
	}
}

// TestWatchLinks changes a file as Kubernetes changes a ConfigMap: a link to a directory is replaced.
func TestWatchLinks(t *testing.T) {
	dir := t.TempDir()
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(name, doc string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "c.yaml"), doc)
	}
	version("..1", "sampling: {events_per_second: 1}")
	link("..1", "..data")
	link("..data/c.yaml", "c.yaml")
	next, _ := watched(t, filepath.Join(dir, "c.yaml"), never)
	for i, n := range []string{"2", "3"} {
		version(".."+n, "sampling: {events_per_second: "+n+"}")
		link(".."+n, "..data_tmp")
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
			t.Fatal(err)
		}
		if r := next(); r.Err != nil || r.Config.Sampling.EventsPerSecond != i+2 {
			t.Errorf("%+v", r)
		}
	}
}

// TestWatchElsewhere changes the file that a link in another directory leads to.
func TestWatchElsewhere(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "real.yaml"), filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	next, hangups := watched(t, link, never)
	hangups <- syscall.SIGHUP // the report shows that the directories are being watched
	if r := next(); r.Err != nil {
		t.Error(r.Err)
	}
	replace(t, file, "sampling: {events_per_second: 3}")
	if r := next(); r.Err != nil || r.Config.Sampling.EventsPerSecond != 3 {
		t.Errorf("%+v", r)
	}
}

// TestWatchPoll replaces the directory, which ends notifications.
func TestWatchPoll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	file := filepath.Join(dir, "c.yaml")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, file, "")
	next, _ := watched(t, file, 10*time.Millisecond)
	other := dir + "2"
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(other, "c.yaml"), "sampling: {events_per_second: 4}")
	if err := os.Rename(dir, dir+"1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, dir); err != nil {
		t.Fatal(err)
	}
	for { // the file may have been missing for a moment
		if r := next(); r.Err == nil {
			if r.Config.Sampling.EventsPerSecond != 4 {
				t.Errorf("%+v", r)
			}
			return
		}
	}
}

// TestWatchNothing has no file: signals are answered.
func TestWatchNothing(t *testing.T) {
	next, hangups := watched(t, "", never)
	hangups <- syscall.SIGHUP
	if r := next(); r.Err != nil || len(r.Changes) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestWatchPipe loads a configuration from a pipe, which cannot be read again.
func TestWatchPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("node: a"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := Source{File: "/proc/self/fd/" + strconv.Itoa(int(r.Fd()))}
	c, err := s.Load()
	if err != nil || c.Node != "a" {
		t.Fatal(c, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reports []Reload
	hangups := make(chan os.Signal, 1)
	hangups <- syscall.SIGHUP
	s.Watch(ctx, c, hangups, func(r Reload) {
		reports = append(reports, r)
		cancel()
	})
	if len(reports) != 1 || reports[0].Config != nil || reports[0].Err == nil {
		t.Errorf("%+v", reports)
	}
}
