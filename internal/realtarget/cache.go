package realtarget

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cached returns the path of a source's executable, getting it first when the
// cache does not have it.
func cached(src Source, name string) (string, error) {
	root, err := cacheDir()
	if err != nil {
		return "", err
	}
	entry := filepath.Join(root, src.key())
	path := filepath.Join(entry, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := lock(entry + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil // another process got it while this one waited
	}
	dir, err := os.MkdirTemp(root, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := src.get(dir, name); err != nil {
		return "", err
	}
	// An entry is complete or absent: only a finished executable is moved in.
	if err := os.MkdirAll(entry, 0o755); err != nil {
		return "", err
	}
	return path, os.Rename(filepath.Join(dir, name), path)
}

// cacheDir returns the directory that holds all entries and makes it if need be.
func cacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	root := filepath.Join(user, "loupe-realtarget")
	return root, os.MkdirAll(root, 0o755)
}

// lock takes a lock that one process can hold, by way of a file.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
