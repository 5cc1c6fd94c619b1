// Package spool keeps files of targets, such as profiles and recordings, in directories of bounded size.
package spool

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/output"
)

// A Dir is a directory of files of one kind. The oldest are removed when it is full. Its methods may be called concurrently.
type Dir struct {
	what     string // that a file is: "profile"
	ext      string // of its name: ".pb.gz"
	dir      string
	maxBytes int64
	ours     *regexp.Regexp // matches the names of files that this package writes; no other file is removed

	mu     sync.Mutex
	list   []file // in the order of writing, which does not depend on the clock
	bytes  int64
	number uint64 // of names that were returned, which makes them unique
}

type file struct {
	name  string
	bytes int64
}

// Open creates a directory if it does not exist, and counts the files in it. what is what a file is, in the singular, and ext the end of the
// names.
func Open(what, ext, dir string, maxBytes int64) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory of %s: %w", english.Plural(what), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the directory of %s: %w", english.Plural(what), err)
	}
	f := &Dir{what: what, ext: ext, dir: dir, maxBytes: maxBytes,
		ours: regexp.MustCompile(`^[A-Za-z0-9._-]+-[0-9]+-[a-z_]+-[0-9]{8}T[0-9]{6}Z-[0-9]+` + regexp.QuoteMeta(ext) + `(\.partial-[0-9]+)?$`)}
	type old struct {
		file
		at time.Time
	}
	var found []old
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !f.ours.MatchString(e.Name()) {
			continue
		}
		if strings.Contains(e.Name(), ".partial-") {
			_ = os.Remove(filepath.Join(dir, e.Name())) // of an agent that was killed
			continue
		}
		found = append(found, old{file{e.Name(), info.Size()}, info.ModTime()})
	}
	slices.SortFunc(found, func(a, b old) int { return a.at.Compare(b.at) })
	for _, o := range found {
		f.list, f.bytes = append(f.list, o.file), f.bytes+o.bytes
	}
	return f, nil
}

// Path returns the path of the directory.
func (f *Dir) Path() string { return f.dir }

// Write writes a file under a name that Name has returned, and removes the oldest files so that the directory keeps its size.
func (f *Dir) Write(ctx context.Context, name string, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(len(data)) > f.maxBytes {
		return fmt.Errorf("a %s of %d bytes exceeds the size of the directory, %d", f.what, len(data), f.maxBytes)
	}
	for len(f.list) > 0 && f.bytes+int64(len(data)) > f.maxBytes {
		if err := os.Remove(filepath.Join(f.dir, f.list[0].name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("cannot remove an old %s: %w", f.what, err)
		}
		f.bytes -= f.list[0].bytes
		f.list = f.list[1:]
	}
	out, err := output.Create(ctx, filepath.Join(f.dir, name), output.Options{})
	if err != nil {
		return err
	}
	if _, err := out.Write(data); err != nil {
		out.Discard()
		return err
	}
	if err := out.Commit(); err != nil {
		return err
	}
	f.list, f.bytes = append(f.list, file{name, int64(len(data))}), f.bytes+int64(len(data))
	return nil
}

// Name returns the name of a new file: NAMESPACE_POD_PROCESS-PID-KIND-TIME-NUMBER and the extension, without the parts that are unknown.
func (f *Dir) Name(id *metric.Identity, kind string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	return fileName(id, kind, time.Now(), f.number) + f.ext
}

func fileName(id *metric.Identity, kind string, at time.Time, number uint64) string {
	var parts []string
	for _, part := range []string{id.Namespace, id.Pod, id.Process} {
		if part != "" {
			parts = append(parts, safe(part, 60))
		}
	}
	if len(parts) == 0 {
		parts = []string{"unknown"}
	}
	kind = strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && r != '_' {
			return -1
		}
		return r
	}, kind)
	return fmt.Sprintf("%s-%d-%s-%s-%d", strings.Join(parts, "_"), id.PID, cmp.Or(kind[:min(len(kind), 20)], "file"), at.UTC().Format("20060102T150405Z"), number)
}

// safe returns text from a target as a part of the name of a file: other characters than letters, digits, '.' and '-' become '_', as
// does a '.' at the beginning.
func safe(s string, n int) string {
	b := []byte(s[:min(len(s), n)])
	for i, c := range b {
		ok := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' && i > 0
		if !ok {
			b[i] = '_'
		}
	}
	return string(b)
}
