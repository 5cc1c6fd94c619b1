package push

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/output"
)

// files are the profiles in a directory of bounded size. One goroutine writes them.
type files struct {
	dir      string
	maxBytes int64
	list     []file // in the order of writing, which does not depend on the clock
	bytes    int64
	written  uint64 // files that were written, which makes their names unique
}

type file struct {
	name  string
	bytes int64
}

// ours matches the names of files that this package writes. No other file is removed.
var ours = regexp.MustCompile(`^[A-Za-z0-9._-]+-[0-9]+-[a-z]+-[0-9]{8}T[0-9]{6}Z-[0-9]+\.pb\.gz(\.partial-[0-9]+)?$`)

// openFiles creates a directory if it does not exist, and counts the files in it.
func openFiles(dir string, maxBytes int64) (*files, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot create the directory of profiles: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the directory of profiles: %w", err)
	}
	f := &files{dir: dir, maxBytes: cmp.Or(maxBytes, defaultMaxBytes)}
	type old struct {
		file
		at time.Time
	}
	var found []old
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !ours.MatchString(e.Name()) {
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

// write writes a profile, and removes the oldest ones so that the directory keeps its size.
func (f *files) write(ctx context.Context, id *metric.Identity, kind string, data []byte) error {
	if int64(len(data)) > f.maxBytes {
		return fmt.Errorf("a profile of %d bytes exceeds the size of the directory, %d", len(data), f.maxBytes)
	}
	for len(f.list) > 0 && f.bytes+int64(len(data)) > f.maxBytes {
		if err := os.Remove(filepath.Join(f.dir, f.list[0].name)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("cannot remove an old profile: %w", err)
		}
		f.bytes -= f.list[0].bytes
		f.list = f.list[1:]
	}
	f.written++
	name := fileName(id, kind, time.Now(), f.written)
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

// fileName returns the name of a file: NAMESPACE_POD_PROCESS-PID-KIND-TIME-NUMBER.pb.gz, without the parts that are unknown.
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
		if r < 'a' || r > 'z' {
			return -1
		}
		return r
	}, kind)
	kind = cmp.Or(kind[:min(len(kind), 20)], "profile")
	return fmt.Sprintf("%s-%d-%s-%s-%d.pb.gz", strings.Join(parts, "_"), id.PID, kind, at.UTC().Format("20060102T150405Z"), number)
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
