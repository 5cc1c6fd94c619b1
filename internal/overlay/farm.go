package overlay

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// isNotEmpty reports whether a directory was not renamed because the other one exists.
func isNotEmpty(err error) bool { return errors.Is(err, syscall.ENOTEMPTY) }

// writeFarm makes a GOROOT of links to another one. The files of src are hard links, or copies where the file system permits no
// hard links: the go command does not follow symbolic links to directories when it expands a pattern such as std, and does not
// embed files that are symbolic links. All else is a symbolic link.
func writeFarm(root, dir string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "src" {
			continue
		}
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	src := filepath.Join(root, "src")
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := filepath.Join(dir, rel)
		switch {
		case e.IsDir():
			return os.Mkdir(target, 0o755)
		case e.Type()&fs.ModeSymlink != 0:
			return os.Symlink(path, target)
		}
		if os.Link(path, target) == nil {
			return nil
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file with its modification time.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// isFarm reports whether a directory is a farm for a GOROOT.
func isFarm(root, dir string) bool {
	want, err := os.ReadFile(filepath.Join(root, "VERSION"))
	if err != nil {
		return false
	}
	got, err := os.ReadFile(filepath.Join(dir, "VERSION"))
	if err != nil || !bytes.Equal(got, want) {
		return false
	}
	link, err := os.Readlink(filepath.Join(dir, "bin"))
	return err == nil && link == filepath.Join(root, "bin")
}
