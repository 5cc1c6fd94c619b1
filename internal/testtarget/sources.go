package testtarget

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// sourceTree has the programs' sources. They are embedded so that every package
// can build them from any directory, also with -trimpath.
//
//go:embed testdata/src
var sourceTree embed.FS

// hostTree has the program of C that loads a library.
//
//go:embed testdata/host
var hostTree embed.FS

const hostSource = "host/host.c"

const (
	sourceRoot   = "testdata/src"
	commonSource = "common" // what every program's package main has in common
)

// programFiles returns the sources of a program by path.
func programFiles(program string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, dir := range []string{commonSource, program} {
		if err := readTree(path.Join(sourceRoot, dir), files); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("there is no program %q", program)
			}
			return nil, err
		}
	}
	return files, nil
}

// readTree adds the files below a directory of sourceTree.
func readTree(root string, files map[string][]byte) error {
	return fs.WalkDir(sourceTree, root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := sourceTree.ReadFile(name)
		if err != nil {
			return err
		}
		files[name[len(root)+1:]] = content
		return nil
	})
}

// writeFiles writes files below a directory.
func writeFiles(dir string, files map[string][]byte) error {
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o666); err != nil {
			return err
		}
	}
	return nil
}
