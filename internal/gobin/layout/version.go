package layout

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

//go:generate go run ./gen -table table.txt

//go:embed table.txt
var tableText string

// arches are the architectures in the table.
var arches = []string{"amd64", "arm64"}

// oldestMinor is the first minor release whose layouts are known.
const oldestMinor = 12

// undatedMinor stands for development versions that name no release ("devel +a1b2c3d Tue ..."). Go stopped making those
// during the development of 1.17.
const undatedMinor = 16

// ForVersion returns the layout of a release from the embedded table. goVersion is spelled as runtime.Version and the
// build information do, arch as GOARCH does.
//
// The Source is SourceTable when goVersion is a release that the table was made from, or one between two that are alike.
// It is SourceNearest for all others: releases that are newer than the table, pre-releases, development versions, and
// versions with a vendor's or an experiment's suffix ("go1.22.3 X:boringcrypto"). The GoVersion of the result then tells
// which release it is.
//
// Errors wrap ErrUnsupportedVersion or ErrUnsupportedArch.
func ForVersion(goVersion, arch string) (*Layout, error) {
	if !slices.Contains(arches, arch) {
		return nil, fmt.Errorf("%w: %q", ErrUnsupportedArch, arch)
	}
	release, exact, err := parseVersion(goVersion)
	if err != nil {
		return nil, err
	}
	t, err := table.Open(tableText)
	if err != nil {
		return nil, err
	}
	at, known, err := locate(t, release, arch)
	if err != nil {
		return nil, err
	}
	data, err := snapshot(t, at, arch)
	if err != nil {
		return nil, err
	}
	if exact && known {
		return &Layout{GoVersion: goVersion, Arch: arch, Source: SourceTable, data: data}, nil
	}
	return &Layout{GoVersion: "go" + at.String(), Arch: arch, Source: SourceNearest, data: data}, nil
}

// A tableKey is a release on an architecture.
type tableKey struct {
	release table.Release
	arch    string
}

// snapshots are what is in use of the table, a weak.Pointer[table.Snapshot] by tableKey: an agent has a layout for each process.
var snapshots sync.Map

// snapshot returns what the table has of a release. It must not be changed.
func snapshot(t *table.Text, r table.Release, arch string) (*table.Snapshot, error) {
	if p, ok := snapshots.Load(tableKey{r, arch}); ok {
		if s := p.(weak.Pointer[table.Snapshot]).Value(); s != nil {
			return s, nil
		}
	}
	s, err := t.Snapshot(r, arch)
	if err == nil {
		snapshots.Store(tableKey{r, arch}, weak.Make(s))
	}
	return s, err
}

// parseVersion reads a version. exact is false when there is more to it than a release's numbers.
func parseVersion(s string) (r table.Release, exact bool, err error) {
	numbers, isRelease := strings.CutPrefix(s, "go")
	if !isRelease {
		devel, ok := strings.CutPrefix(s, "devel ")
		if !ok {
			return r, false, fmt.Errorf("%w: %.60q", ErrUnsupportedVersion, s)
		}
		if strings.HasPrefix(devel, "+") {
			return table.Release{Minor: undatedMinor}, false, nil
		}
		numbers = strings.TrimPrefix(devel, "go")
	}
	r, rest, err := table.ParseRelease(numbers)
	if err != nil || r.Minor < oldestMinor {
		return r, false, fmt.Errorf("%w: %.60q; Loupe supports Go 1.%d and later", ErrUnsupportedVersion, s, oldestMinor)
	}
	return r, isRelease && rest == "", nil
}

// locate returns the release of the table whose layout holds for a release, and whether that is known to be so.
func locate(t *table.Text, r table.Release, arch string) (at table.Release, known bool, err error) {
	releases := t.Releases()
	i, found := slices.BinarySearchFunc(releases, r, table.Release.Compare)
	switch {
	case found:
		return r, true, nil
	case len(releases) == 0:
		return r, false, fmt.Errorf("%w: empty", table.ErrFormat)
	case i == 0:
		return releases[0], false, nil
	case i == len(releases):
		return releases[i-1], false, nil
	}
	before, after := releases[i-1], releases[i]
	if before.Minor != r.Minor {
		// Its own minor's releases are later, or its minor is missing.
		return after, false, nil
	}
	if after.Minor != r.Minor {
		return before, false, nil
	}
	known, err = t.Same(before, after, arch)
	return before, known, err
}
