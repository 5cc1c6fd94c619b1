package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// A known file of the cache says what the overlay of a toolchain is, so that the second use of a toolchain does not patch its sources
// again. It is valid while this program and the files that the overlay is made from have the sizes and times that they had.
type known struct {
	Fingerprint string
	Files       map[string]string // the replaced files, below GOROOT/src, and their state
	Source      string            // the state of GOROOT/src and of its VERSION
}

const knownPrefix = "known-"

// knownFile returns the path of the known file of a toolchain, for this program; nothing if the program cannot be identified.
func knownFile(tc Toolchain, cache string) string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, knownPrefix+hashOf(exe, stateOf(exe), tc.Version, tc.Root, fmt.Sprint(tc.NoLoader))[:16]+".json")
}

// stateOf returns the size and the time of a file.
func stateOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}

func sourceState(tc Toolchain) string {
	return stateOf(filepath.Join(tc.Root, "src")) + " " + stateOf(filepath.Join(tc.Root, "VERSION"))
}

func sourcePath(tc Toolchain, name string) string {
	return filepath.Join(tc.Root, "src", filepath.FromSlash(name))
}

// readKnown returns the fingerprint and the replaced files of the overlay of a toolchain, if they are known.
func readKnown(tc Toolchain, file string) (mark string, replaced []string, ok bool) {
	text, err := os.ReadFile(file)
	var k known
	if err != nil || json.Unmarshal(text, &k) != nil || k.Source != sourceState(tc) || len(k.Files) == 0 {
		return "", nil, false
	}
	for name, state := range k.Files {
		if stateOf(sourcePath(tc, name)) != state {
			return "", nil, false
		}
	}
	return k.Fingerprint, slices.Sorted(maps.Keys(k.Files)), true
}

// writeKnown writes the known file of an overlay. Without it, the next use takes longer.
func (o *Overlay) writeKnown(file string) {
	k := known{Fingerprint: o.Fingerprint, Files: map[string]string{}, Source: sourceState(o.Toolchain)}
	for _, name := range o.Replaced {
		k.Files[name] = stateOf(sourcePath(o.Toolchain, name))
	}
	text, err := json.Marshal(k)
	if err != nil {
		return
	}
	removeOld(filepath.Join(filepath.Dir(file), knownPrefix+"*"))
	temp, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return
	}
	_, err = temp.Write(text)
	if closeErr := temp.Close(); err != nil || closeErr != nil || os.Rename(temp.Name(), file) != nil {
		os.Remove(temp.Name())
	}
}
