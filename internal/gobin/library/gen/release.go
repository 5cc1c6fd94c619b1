package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/internal/gobin/library/internal/table"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// oldestMinor is the first minor Go version whose standard library is examined.
const oldestMinor = 19

// A release is a Go release with what selects the files of its packages.
type release struct {
	version     table.Version
	goroot      string
	toolTags    []string
	releaseTags []string
}

// goName returns the name of a Go release as the go command spells it: go1.20, go1.21.0.
func goName(v table.Version) string {
	const firstDotZero = 21
	if v.Patch == 0 && v.Minor < firstDotZero {
		return fmt.Sprintf("go1.%d", v.Minor)
	}
	return fmt.Sprintf("go1.%d.%d", v.Minor, v.Patch)
}

// release returns a Go release. The go command downloads its toolchain if necessary.
func (g *goCommand) release(v table.Version) (release, error) {
	r := release{version: v}
	const format = `{"goroot": {{printf "%q" context.GOROOT}}, "tags": "{{join context.ToolTags ","}} {{join context.ReleaseTags ","}}"}`
	out, err := g.run([]string{"GOTOOLCHAIN=" + goName(v)}, "list", "-f", format, "unsafe")
	if err != nil {
		return r, err
	}
	var context struct{ Goroot, Tags string }
	if err := json.Unmarshal(out, &context); err != nil {
		return r, fmt.Errorf("%s list: %w", goName(v), err)
	}
	tool, rel, _ := strings.Cut(context.Tags, " ")
	r.goroot, r.toolTags, r.releaseTags = context.Goroot, strings.Split(tool, ","), strings.Split(rel, ",")
	return r, nil
}

// latestVersions returns the latest release of each minor Go version, oldest first.
func latestVersions() ([]table.Version, error) {
	var list []table.Version
	for _, name := range testtarget.AllVersions() {
		v, err := table.ParseVersion("v" + name)
		if err != nil {
			return nil, err
		}
		if v.Minor >= oldestMinor {
			list = append(list, v)
		}
	}
	return list, nil
}

// latestReleases returns the latest release of each minor Go version, oldest first.
func (g *goCommand) latestReleases() ([]release, error) {
	if g.released != nil {
		return g.released, nil
	}
	versions, err := latestVersions()
	if err != nil {
		return nil, err
	}
	var list []release
	for _, v := range versions {
		r, err := g.release(v)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	g.released = list
	return list, nil
}

// releaseVersions returns the first and the latest release of each minor Go version, oldest first.
func releaseVersions() ([]table.Version, error) {
	latest, err := latestVersions()
	if err != nil {
		return nil, err
	}
	var list []table.Version
	for _, v := range latest {
		list = append(list, table.Version{Major: 1, Minor: v.Minor}, v)
	}
	return slices.Compact(list), nil // a minor version can have a single release
}
