package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// manifestName is the file of an entry that lists its files.
const manifestName = "manifest.json"

// fileTime is the modification time of generated files. The go command does not trust files that are younger than two seconds.
var fileTime = time.Unix(1_000_000_000, 0)

// CacheDir returns the user's directory for overlays.
func CacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the directory for overlays: %w (set XDG_CACHE_HOME)", err)
	}
	return filepath.Join(user, "loupe", "overlay"), nil
}

// fill makes the directory entry with what write writes into an empty directory, unless the directory exists and is intact. Several
// processes may fill an entry at the same time: each writes a directory of its own, and one of them becomes the entry.
func fill(entry string, intact func(dir string) bool, write func(dir string) error) error {
	if intact(entry) {
		return nil
	}
	parent := filepath.Dir(entry)
	if err := os.MkdirAll(parent, 0o777); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is left of it
	if err := write(dir); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	const attempts = 10
	for range attempts {
		err = os.Rename(dir, entry)
		if err == nil || intact(entry) {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) && !isNotEmpty(err) {
			return err
		}
		// A damaged entry. It is renamed first, so that nobody sees a part of it.
		old := dir + ".old"
		if os.Rename(entry, old) == nil {
			defer os.RemoveAll(old)
		}
	}
	return err
}

// writeFiles writes files with a manifest of their hashes.
func writeFiles(dir string, files map[string][]byte) error {
	sums := map[string]string{}
	for name, text := range files {
		sums[name] = sum(text)
	}
	manifest, err := json.MarshalIndent(sums, "", "\t")
	if err != nil {
		return err
	}
	files = maps.Clone(files)
	files[manifestName] = append(manifest, '\n')
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return err
		}
		if err := os.Chtimes(path, fileTime, fileTime); err != nil {
			return err
		}
	}
	return nil
}

// isIntact reports whether a directory has the files of its manifest, unchanged.
func isIntact(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return false
	}
	var sums map[string]string
	if json.Unmarshal(text, &sums) != nil {
		return false
	}
	for name, want := range sums {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil || sum(text) != want {
			return false
		}
	}
	return true
}

func sum(text []byte) string {
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:])
}
