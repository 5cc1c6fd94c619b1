package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Tag is the build tag with which package glti uses the patched runtime.
const Tag = "loupe_glti"

// NoLoaderTag is the build tag with which static programs do not contain the code that starts loaders.
const NoLoaderTag = "glti_noloader"

// overlayName is the file that the go command's flag -overlay takes.
const overlayName = "overlay.json"

// An Overlay is a patched runtime for one toolchain.
type Overlay struct {
	Toolchain   Toolchain
	Fingerprint string
	// Root is the GOROOT to use: that of the toolchain, or a farm.
	Root string
	// File is for the flag -overlay.
	File string
	// Replaced are the replaced files, below GOROOT/src, with slashes.
	Replaced []string

	cache string
}

// Make returns the overlay for a toolchain. It is in a cache directory, and is made if the directory does not have it.
func Make(tc Toolchain, cache string) (*Overlay, error) {
	o := &Overlay{Toolchain: tc, Root: tc.Root, cache: cache}
	if tc.cached() {
		o.Root = filepath.Join(cache, "goroot-"+tc.Version+"-"+hashOf(tc.Root)[:16])
		if inside(tc.ModCache, o.Root) {
			return nil, fmt.Errorf("cannot use %s for overlays: it is in the module cache (set XDG_CACHE_HOME to another directory)", cache)
		}
		err := fill(o.Root, func(dir string) bool { return isFarm(tc.Root, dir) }, func(dir string) error { return writeFarm(tc.Root, dir) })
		if err != nil {
			return nil, fmt.Errorf("cannot link the files of %s: %w", tc.Version, err)
		}
	}
	file := knownFile(tc, cache)
	var ok bool
	if o.Fingerprint, o.Replaced, ok = readKnown(tc, file); ok {
		o.File = filepath.Join(o.dir(), overlayName)
		if isIntact(o.dir()) {
			return o, nil
		}
	}
	files, mark, err := patched(tc, patchFiles)
	if err != nil {
		return nil, err
	}
	o.Fingerprint, o.Replaced = mark, slices.Sorted(maps.Keys(files))
	if err := o.write(o.dir(), files); err != nil {
		return nil, fmt.Errorf("cannot write the overlay for %s: %w", tc.Version, err)
	}
	o.writeKnown(file)
	return o, nil
}

// dir returns the entry of the cache for the overlay.
func (o *Overlay) dir() string {
	return filepath.Join(o.cache, "overlay-"+o.Toolchain.Version+"-"+hashOf(o.Fingerprint, o.Root)[:16])
}

// MakeIn writes the overlay for a toolchain to a directory of the user's, which is empty, does not exist, or has an overlay.
func MakeIn(tc Toolchain, dir string) (*Overlay, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	const marker = ".loupe-overlay"
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if len(entries) > 0 {
		if _, err := os.Lstat(filepath.Join(dir, marker)); err != nil {
			return nil, fmt.Errorf("cannot write the overlay to %s: the directory is not empty (use another one)", dir)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, marker), nil, 0o644); err != nil {
		return nil, err
	}
	return Make(tc, dir)
}

// write writes the files of an overlay to a directory.
func (o *Overlay) write(dir string, files map[string][]byte) error {
	o.File = filepath.Join(dir, overlayName)
	replace := map[string]string{}
	for name := range files {
		replace[o.original(name)] = filepath.Join(dir, filepath.FromSlash(name))
	}
	list, err := marshal(replace)
	if err != nil {
		return err
	}
	files = maps.Clone(files)
	files[overlayName] = list
	return fill(dir, isIntact, func(dir string) error { return writeFiles(dir, files) })
}

// original returns the path that the go command knows a replaced file by.
func (o *Overlay) original(name string) string {
	return filepath.Join(o.Root, "src", filepath.FromSlash(name))
}

// marshal returns the JSON form of an overlay.
func marshal(replace map[string]string) ([]byte, error) {
	return json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
}

// Env returns what the environment of the go command requires besides its flags: nothing, or a GOROOT of links.
func (o *Overlay) Env() []string {
	if o.Root == o.Toolchain.Root {
		return nil
	}
	return []string{"GOROOT=" + o.Root, "GOTOOLCHAIN=local"}
}

// inside reports whether a path is in a directory.
func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// readOverlay reads a user's overlay. Relative paths in it are relative to dir.
func readOverlay(file, dir string) (map[string]string, error) {
	text, err := os.ReadFile(absolute(file, dir))
	if err != nil {
		return nil, err
	}
	var list struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	replace := map[string]string{}
	for from, to := range list.Replace {
		if to != "" { // empty if the file is deleted
			to = absolute(to, dir)
		}
		replace[absolute(from, dir)] = to
	}
	return replace, nil
}

func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// user reads a user's overlay. Its replacements may not be of files that the overlay replaces.
func (o *Overlay) user(file, dir string) (map[string]string, error) {
	list, err := readOverlay(file, dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the overlay: %w", err)
	}
	theirs := map[string]string{}
	for from, to := range list {
		// A file of a GOROOT in the module cache is known by its path in the farm.
		if rel, err := filepath.Rel(o.Toolchain.Root, from); err == nil && filepath.IsLocal(rel) {
			from = filepath.Join(o.Root, rel)
		}
		theirs[from] = to
	}
	for _, name := range o.Replaced {
		if _, ok := theirs[o.original(name)]; ok {
			return nil, fmt.Errorf("cannot merge the overlay %s: it replaces %s, which the tool interface patches (remove the entry)", file, o.original(name))
		}
	}
	return theirs, nil
}

// The prefixes of entries of the cache that depend on files of the user.
const (
	mergedPrefix = "merged-"
	agentsPrefix = "agents-"
)

// withFiles returns a file that has the replacements of the overlay, those of a user's overlay, and files of given texts.
func (o *Overlay) withFiles(theirs, files map[string]string) (string, error) {
	if len(theirs)+len(files) == 0 {
		return o.File, nil
	}
	replace, err := readOverlay(o.File, "")
	if err != nil {
		return "", err
	}
	maps.Copy(replace, theirs)
	list, err := marshal(replace)
	if err != nil {
		return "", err
	}
	inputs := []string{string(list)}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		inputs = append(inputs, path, files[path])
	}
	prefix := mergedPrefix
	if len(files) > 0 {
		prefix = agentsPrefix
	}
	entry := filepath.Join(o.cache, prefix+hashOf(inputs...)[:16])
	contents := map[string][]byte{}
	for i, path := range slices.Sorted(maps.Keys(files)) {
		name := fmt.Sprintf("%d_%s", i, filepath.Base(path))
		contents[name], replace[path] = []byte(files[path]), filepath.Join(entry, name)
	}
	if contents[overlayName], err = marshal(replace); err != nil {
		return "", err
	}
	err = o.fillKept(entry, func(dir string) error { return writeFiles(dir, contents) })
	return filepath.Join(entry, overlayName), err
}

// keep is how long the cache has an entry that depends on files of the user, after its last use.
const keep = 30 * 24 * time.Hour

// fillKept fills an entry that depends on files of the user. The first use of a new entry removes those that have not been used for long.
func (o *Overlay) fillKept(entry string, write func(dir string) error) error {
	now := time.Now()
	if isIntact(entry) {
		return os.Chtimes(entry, now, now)
	}
	for _, prefix := range []string{mergedPrefix, agentsPrefix} {
		removeOld(filepath.Join(o.cache, prefix+"*"))
	}
	return fill(entry, isIntact, write)
}

// removeOld removes what matches a pattern and has not been used for long. Another process may do so, too.
func removeOld(pattern string) {
	old, err := filepath.Glob(pattern)
	if err != nil {
		return
	}
	for _, path := range old {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > keep {
			os.RemoveAll(path)
		}
	}
}
