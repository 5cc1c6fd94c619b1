package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// An archive is the file system that a kernel begins with: a cpio archive of the form "newc", as the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst has it.
type archive struct {
	w    *bufio.Writer
	ino  int
	made map[string]bool // directories
	time int64           // of all entries; what is too old a cache throws away
}

const (
	archiveEnd   = "TRAILER!!!"
	archiveAlign = 4
	modeDir      = 0o040000
	modeFile     = 0o100000
	modeLink     = 0o120000
)

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), made: map[string]bool{"/": true}, time: time.Now().Unix()}
}

// dir adds a directory and those above it.
func (a *archive) dir(path string) error {
	if a.made[path] {
		return nil
	}
	a.made[path] = true
	if err := a.dir(filepath.Dir(path)); err != nil {
		return err
	}
	return a.entry(path, modeDir|0o755, nil)
}

// file adds a file with its contents.
func (a *archive) file(path string, mode fs.FileMode, contents []byte) error {
	if err := a.dir(filepath.Dir(path)); err != nil {
		return err
	}
	return a.entry(path, modeFile|uint32(mode.Perm()), contents)
}

// link adds a symbolic link.
func (a *archive) link(path, to string) error {
	if err := a.dir(filepath.Dir(path)); err != nil {
		return err
	}
	return a.entry(path, modeLink|0o777, []byte(to))
}

// copy adds a file of this machine.
func (a *archive) copy(path, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	contents, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return a.file(path, info.Mode(), contents)
}

// tree adds the files and symbolic links of a directory of this machine, but for those below the names in without.
func (a *archive) tree(path, from string, without ...string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		to := filepath.Join(path, rel)
		switch {
		case d.IsDir() && slices.Contains(without, rel):
			return fs.SkipDir
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return a.link(to, target)
		case d.Type().IsRegular():
			return a.copy(to, name)
		}
		return nil
	})
}

func (a *archive) entry(path string, mode uint32, contents []byte) error {
	a.ino++
	name := path
	if path != archiveEnd {
		name = path[1:]
	}
	links := 1
	if mode&modeFile == 0 && mode&modeDir != 0 {
		links = 2
	}
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.ino, mode, 0, 0, links, a.time, len(contents), 0, 0, 0, 0, len(name)+1, 0, name)
	if err := a.padded([]byte(head)); err != nil {
		return err
	}
	return a.padded(contents)
}

func (a *archive) padded(b []byte) error {
	if _, err := a.w.Write(b); err != nil {
		return err
	}
	_, err := a.w.Write(make([]byte, -len(b)&(archiveAlign-1)))
	return err
}

// end completes the archive.
func (a *archive) end() error {
	if err := a.entry(archiveEnd, 0, nil); err != nil {
		return err
	}
	return a.w.Flush()
}
