package main

import (
	"maps"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

// A history is what was examined of a module.
type history struct {
	examiner
	points  []point // oldest first
	missing map[table.Version]bool
}

// A point is a version that was examined.
type point struct {
	version table.Version
	offsets map[string]uint64
}

// versions returns the versions to examine, oldest first: all releases that the go command lists, or those that the list of
// wanted fields names and the newest one. Of the standard library they are the first and the latest release of each minor
// version.
func (h *history) versions() ([]table.Version, error) {
	if h.module.path == table.Std {
		return releaseVersions()
	}
	list, err := h.listed()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, table.Version.Compare)
	return slices.Compact(list), nil
}

// listed returns the versions of a module, except the standard library, in any order.
func (h *history) listed() ([]table.Version, error) {
	if len(h.module.versions) == 0 {
		since, err := table.ParseVersion(h.module.since)
		if err != nil {
			return nil, err
		}
		// The go command does not list versions that the module proxy has not cached.
		list, err := h.command.versions(h.module.path, since)
		return append(list, since), err
	}
	newest, err := h.command.newest(h.module.path)
	if err != nil {
		return nil, err
	}
	list := []table.Version{newest}
	for _, name := range h.module.versions {
		v, err := table.ParseVersion(name)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// examineAll examines versions in order.
func (h *history) examineAll(versions []table.Version) error {
	for _, v := range versions {
		offsets, err := h.examine(v)
		if err != nil {
			return err
		}
		h.points = append(h.points, point{v, offsets})
	}
	return nil
}

// refine examines versions between two that differ, until no version between them is published.
func (h *history) refine() error {
	for i := 0; i+1 < len(h.points); {
		a, b := h.points[i], h.points[i+1]
		if maps.Equal(a.offsets, b.offsets) {
			i++
			continue
		}
		v, ok := h.middle(a.version, b.version)
		if !ok {
			i++
			continue
		}
		offsets, err := h.examine(v)
		if err != nil {
			return err
		}
		h.points = slices.Insert(h.points, i+1, point{v, offsets})
	}
	return nil
}

// middle returns the published version nearest to the middle of two.
func (h *history) middle(a, b table.Version) (table.Version, bool) {
	list := slices.DeleteFunc(h.between(a, b), func(v table.Version) bool { return h.missing[v] })
	for len(list) > 0 {
		i := len(list) / 2
		v := list[i]
		if h.module.path == table.Std || h.command.exists(h.module.path, v) {
			return v, true
		}
		h.missing[v] = true
		list = slices.Delete(list, i, i+1)
	}
	return table.Version{}, false
}

// between returns versions that can exist between two, in order. Those that are not published are among them, and
// versions can be published that the go command does not list.
func (h *history) between(a, b table.Version) []table.Version {
	var list []table.Version
	add := func(v table.Version) {
		if v.Compare(a) > 0 && v.Compare(b) < 0 {
			list = append(list, v)
		}
	}
	switch {
	case a.Pre != "" || b.Pre != "":
		return nil // of pseudo-versions, only those that the list of wanted fields names
	case a.SameMinor(b):
		for patch := a.Patch + 1; patch < b.Patch; patch++ {
			add(table.Version{Major: a.Major, Minor: a.Minor, Patch: patch})
		}
	case h.module.path != table.Std: // the latest release of each minor Go version is known
		add(table.Version{Major: a.Major, Minor: a.Minor, Patch: a.Patch + 1})
		add(a.NextMinor())
		for minor := 0; minor <= b.Minor; minor++ {
			add(table.Version{Major: b.Major, Minor: minor})
		}
		for patch := 1; patch < b.Patch; patch++ {
			add(table.Version{Major: b.Major, Minor: b.Minor, Patch: patch})
		}
		slices.SortFunc(list, table.Version.Compare)
		list = slices.Compact(list)
	}
	return list
}

// changes returns the offsets of a field in the versions that were examined. Between two that differ, the offset is
// unknown.
func (h *history) changes(path string) []table.Change {
	var list []table.Change
	add := func(c table.Change) {
		last := table.Change{}
		if n := len(list); n > 0 {
			last = list[n-1]
		}
		if c.Known != last.Known || c.Offset != last.Offset {
			list = append(list, c)
		}
	}
	for i, p := range h.points {
		offset, ok := p.offsets[path]
		if i > 0 {
			before, had := h.points[i-1].offsets[path]
			gap := h.gap(h.points[i-1].version, p.version)
			if had && (!ok || before != offset) && gap.Compare(p.version) < 0 {
				add(table.Change{Since: gap})
			}
		}
		add(table.Change{Since: p.version, Known: ok, Offset: offset})
	}
	return list
}

// gap returns the first version after a, the older one of two that differ, whose offsets are unknown. The patch releases of
// a minor version are assumed to be the same, except those that were examined.
func (h *history) gap(a, b table.Version) table.Version {
	switch {
	case a.Pre != "":
		return table.Version{Major: a.Major, Minor: a.Minor, Patch: a.Patch, Pre: a.Pre + ".0"}
	case a.SameMinor(b):
		next := table.Version{Major: a.Major, Minor: a.Minor, Patch: a.Patch + 1}
		return h.withPreReleases(next)
	}
	return h.withPreReleases(a.NextMinor())
}

// withPreReleases returns the first pre-release that a version can have. The standard library has none: its versions
// consist of numbers.
func (h *history) withPreReleases(v table.Version) table.Version {
	if h.module.path != table.Std {
		v.Pre = "0"
	}
	return v
}
