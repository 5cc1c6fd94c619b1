package testtarget

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// unusedFor is how long a cache entry may lie unused before it is removed.
// Every change of a source makes new entries, so old ones have to go.
const unusedFor = 7 * 24 * time.Hour

// A cache is a directory of entries, each a directory that is complete or absent.
type cache struct{ root string }

// openCache returns the user's cache of test targets.
func openCache() (cache, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return cache{}, fmt.Errorf("find the cache: %w", err)
	}
	root := filepath.Join(user, "loupe-testtarget")
	if err := os.MkdirAll(root, 0o777); err != nil {
		return cache{}, fmt.Errorf("make the cache: %w", err)
	}
	return cache{root}, nil
}

// entry returns the directory of an entry, which may not exist yet.
func (c cache) entry(name, hash string) string {
	return filepath.Join(c.root, name+"-"+hash)
}

// fill makes an entry unless it exists. make is given an empty directory, which
// becomes the entry when it returns nil. Only one process makes an entry; others
// that want it wait.
func (c cache) fill(entry string, make func(dir string) error) error {
	if c.use(entry) {
		return nil
	}
	unlock, err := lockFile(entry + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if c.use(entry) {
		return nil
	}
	c.prune()
	dir, err := os.MkdirTemp(c.root, "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // gone by then if all went well
	if err := make(dir); err != nil {
		return err
	}
	// MkdirTemp keeps other users out, as whom a test may run a target.
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return os.Rename(dir, entry)
}

// use says whether an entry exists, and notes that it is in use.
func (c cache) use(entry string) bool {
	now := time.Now()
	return os.Chtimes(entry, now, now) == nil
}

// prune removes entries and left-over temporary directories that nobody used
// for a long time. What it cannot remove now, a later run will.
func (c cache) prune() {
	entries, err := os.ReadDir(c.root)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < unusedFor {
			continue
		}
		// A lock goes with its entry, so that it is never removed alone
		// under a process that holds it.
		if strings.HasSuffix(e.Name(), ".lock") {
			continue
		}
		path := filepath.Join(c.root, e.Name())
		os.RemoveAll(path)
		os.Remove(path + ".lock")
	}
}

// lockFile takes an exclusive lock that ends with the process at the latest.
func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
