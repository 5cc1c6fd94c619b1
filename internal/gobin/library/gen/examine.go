package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
)

// arches are the architectures of targets. Offsets must be the same on both.
var arches = []string{"amd64", "arm64"}

// An examiner computes the offsets of the wanted fields in versions of one module.
type examiner struct {
	module  module
	command *goCommand
}

// examine returns the offsets of the wanted fields that exist in a version, by path. It fails if they depend on the
// architecture, the Go release, or the versions of other modules.
func (e *examiner) examine(v table.Version) (map[string]uint64, error) {
	worlds, err := e.worlds(v)
	if err != nil {
		return nil, err
	}
	var first map[string]uint64
	for i := 0; i < len(worlds); i++ {
		w := worlds[i]
		offsets, err := w.offsets(e.module.structs)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = offsets
		}
		if different := differences(first, offsets); len(different) > 0 {
			return nil, fmt.Errorf("%v: %s not the same with all architectures, Go releases, and versions of dependencies",
				v, strings.Join(different, " "))
		}
		if w.depends && !w.newest {
			again := *w
			again.newest, again.loaded = true, map[string]*pkg{}
			worlds = append(worlds, &again)
		}
	}
	fmt.Printf("%s %v: offsets of %d fields\n", e.module.path, v, len(first))
	return first, nil
}

// worlds returns what the sources of a version are to be compiled with.
func (e *examiner) worlds(v table.Version) ([]*world, error) {
	parsed := newParsedFiles()
	if e.module.path == table.Std {
		r, err := e.command.release(v)
		if err != nil {
			return nil, err
		}
		var worlds []*world
		for _, arch := range arches {
			worlds = append(worlds, newWorld(e.command, parsed, r, arch, nil))
		}
		return worlds, nil
	}
	main, err := e.command.download(e.module.path, v.String())
	if err != nil {
		return nil, err
	}
	if len(main.requires) == 0 && e.module.requires != nil {
		main.requires = e.module.requires
	}
	releases, err := e.command.latestReleases()
	if err != nil {
		return nil, err
	}
	newest := releases[len(releases)-1]
	worlds := []*world{newWorld(e.command, parsed, newest, arches[1], main)}
	for _, r := range releases {
		if r.version.Minor >= min(main.minGo, newest.version.Minor) {
			worlds = append(worlds, newWorld(e.command, parsed, r, arches[0], main))
		}
	}
	return worlds, nil
}

// differences returns the paths of fields whose offsets differ, sorted.
func differences(a, b map[string]uint64) []string {
	different := map[string]bool{}
	for _, side := range []map[string]uint64{a, b} {
		for path := range side {
			offsetA, inA := a[path]
			offsetB, inB := b[path]
			if offsetA != offsetB || inA != inB {
				different[path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(different))
}

// examineModule returns the rows of a module.
func examineModule(cmd *goCommand, m module) (*table.Module, error) {
	h := history{examiner: examiner{module: m, command: cmd}, missing: map[table.Version]bool{}}
	versions, err := h.versions()
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		return nil, errors.New("no versions are published")
	}
	if err := h.examineAll(versions); err != nil {
		return nil, err
	}
	if err := h.refine(); err != nil {
		return nil, err
	}
	rows := &table.Module{Path: m.path, First: h.points[0].version, Newest: h.points[len(h.points)-1].version}
	var misspelt []string
	for _, path := range m.paths() {
		changes := h.changes(path)
		if len(changes) == 0 {
			misspelt = append(misspelt, path)
			continue
		}
		rows.Fields = append(rows.Fields, table.Field{Path: path, Changes: changes})
	}
	if len(misspelt) > 0 {
		return nil, fmt.Errorf("no version has the fields %s", strings.Join(misspelt, " "))
	}
	slices.SortFunc(rows.Fields, func(a, b table.Field) int { return cmp.Compare(a.Path, b.Path) })
	return rows, nil
}

// checkLatest compares the latest release of each minor Go version with a table.
func checkLatest(cmd *goCommand, old *table.Table) error {
	i := slices.IndexFunc(wanted, func(m module) bool { return m.path == table.Std })
	rows := old.Module(table.Std)
	if rows == nil {
		return errors.New("the table does not have the standard library")
	}
	e := examiner{module: wanted[i], command: cmd}
	versions, err := latestVersions()
	if err != nil {
		return err
	}
	for _, v := range versions {
		offsets, err := e.examine(v)
		if err != nil {
			return err
		}
		if different := differences(offsets, rows.At(v)); len(different) > 0 {
			return fmt.Errorf("the table is not current; run go generate ./internal/gobin/library: %s: %s",
				goName(v), strings.Join(different, " "))
		}
	}
	fmt.Println("the table is current")
	return nil
}
