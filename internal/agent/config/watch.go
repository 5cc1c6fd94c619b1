package config

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// settle is how long a directory must not change before the file is read: an editor writes a file in several steps.
	settle = 200 * time.Millisecond
	// settleAtMost bounds how long other changes in the directory delay that.
	settleAtMost = 2 * time.Second
	// pollInterval is the time between two looks at the file that do not depend on notifications, which not all file systems have.
	pollInterval = 30 * time.Second
)

// A Reload is the result of loading a configuration again.
type Reload struct {
	// Config is the new configuration, or nil if it is invalid and the old one stays. What requires a restart has its old values.
	Config  *Config
	Err     error
	Changes []Change // those that have an effect now
	Restart []Change // those that require a restart
}

// Watch loads the configuration again when its file changes, and at each value of hangups, until the context ends. It calls report,
// not concurrently, after each change of the file and each value. running is the configuration that is in effect.
//
// A file that is replaced by a rename, or by a change of symbolic links as in a ConfigMap of Kubernetes, has changed.
func (s Source) Watch(ctx context.Context, running *Config, hangups <-chan os.Signal, report func(Reload)) {
	w := &watch{source: s, running: running, doc: running.doc, report: report, settle: settle, atMost: settleAtMost, poll: pollInterval}
	if info, err := os.Stat(s.File); err == nil && !info.Mode().IsRegular() {
		w.pipe = true
	}
	w.run(ctx, hangups)
}

type watch struct {
	source  Source
	running *Config
	report  func(Reload)

	settle, atMost, poll time.Duration

	pipe bool   // the file cannot be read again
	doc  []byte // contents of the file as of the last reading
	err  string // why it could not be read
}

func (w *watch) run(ctx context.Context, hangups <-chan os.Signal) {
	var events chan fsnotify.Event
	var failures chan error
	notify, err := fsnotify.NewWatcher() // without it, because there are too many, polling remains
	if err == nil && w.source.File != "" {
		events, failures = notify.Events, notify.Errors
	}
	if err == nil {
		defer notify.Close()
	}
	poll := time.NewTicker(w.poll)
	defer poll.Stop()
	due := time.NewTimer(0) // the file may have changed since it was loaded
	defer due.Stop()
	var first time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			w.look(notify, true)
		case <-poll.C:
			w.look(notify, false)
		case <-due.C:
			first = time.Time{}
			w.look(notify, false)
		case _, ok := <-events:
			if !ok {
				events = nil
				break
			}
			if first.IsZero() {
				first = time.Now()
			}
			due.Reset(max(0, min(w.settle, w.atMost-time.Since(first))))
		case _, ok := <-failures: // such as an overflow of the queue
			if !ok {
				failures = nil
				break
			}
			due.Reset(w.settle)
		}
	}
}

// follow watches the directories that the file is in: by its name, and after its symbolic links.
func (w *watch) follow(notify *fsnotify.Watcher) {
	if notify == nil || w.source.File == "" {
		return
	}
	dirs := []string{filepath.Dir(w.source.File)}
	if target, err := filepath.EvalSymlinks(w.source.File); err == nil && filepath.Dir(target) != dirs[0] {
		dirs = append(dirs, filepath.Dir(target))
	}
	watched := map[string]bool{}
	for _, dir := range notify.WatchList() {
		watched[dir] = true
	}
	for _, dir := range dirs {
		if !watched[dir] {
			notify.Add(dir)
		}
		delete(watched, dir)
	}
	for dir := range watched {
		notify.Remove(dir)
	}
}

func (w *watch) read() (doc []byte, problem string) {
	if w.source.File == "" {
		return nil, ""
	}
	doc, err := read(w.source.File, true)
	if err != nil {
		problem = err.Error()
	}
	return doc, problem
}

// look loads the configuration if the file has changed, or in any case.
func (w *watch) look(notify *fsnotify.Watcher, always bool) {
	if w.pipe && !always {
		return
	}
	w.follow(notify)
	doc, problem := w.read()
	if !always && problem == w.err && bytes.Equal(doc, w.doc) {
		return
	}
	w.doc, w.err = doc, problem
	if problem != "" {
		w.report(Reload{Err: readError(problem)})
		return
	}
	c, err := w.source.load(doc)
	if err != nil {
		w.report(Reload{Err: err})
		return
	}
	now, restart := c.keep(w.running)
	w.running = c
	w.report(Reload{Config: c, Changes: now, Restart: restart})
}

// readError is why a file could not be read.
type readError string

func (e readError) Error() string { return string(e) }
