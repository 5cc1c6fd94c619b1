package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

// bisect adds releases between two of the same minor that differ, until each change is dated to one release or no
// toolchain between them is published. Of the releases that it looks at, it keeps those next to a change.
func (g *generator) bisect(ctx context.Context, builds []table.Build) ([]table.Build, error) {
	var looked []table.Release
	for i := 0; i+1 < len(builds); {
		from, to := builds[i], builds[i+1]
		if from.Release.Minor != to.Release.Minor || sameLayouts(from, to) {
			i++
			continue
		}
		b, err := g.buildBetween(ctx, from.Release, to.Release)
		if err != nil {
			return nil, err
		}
		if b == nil {
			i++ // the change is dated as well as it can be
			continue
		}
		fmt.Printf("go%v differs from go%v: built go%v\n", to.Release, from.Release, b.Release)
		builds = slices.Insert(builds, i+1, *b)
		looked = append(looked, b.Release)
	}
	for i := len(builds) - 2; i > 0; i-- {
		if slices.Contains(looked, builds[i].Release) && sameLayouts(builds[i-1], builds[i]) && sameLayouts(builds[i], builds[i+1]) {
			builds = slices.Delete(builds, i, i+1)
		}
	}
	return builds, nil
}

// sameLayouts tells whether two releases of one minor have nothing that differs.
func sameLayouts(a, b table.Build) bool {
	return a.Release.Minor == b.Release.Minor && reflect.DeepEqual(a.Arches, b.Arches)
}

// buildBetween builds the published release nearest to the middle of two; nil when there is none.
func (g *generator) buildBetween(ctx context.Context, from, to table.Release) (*table.Build, error) {
	published, err := g.publishedReleases(ctx)
	if err != nil {
		return nil, err
	}
	middle := (from.Patch + to.Patch) / 2
	distance := func(r table.Release) int { return max(r.Patch-middle, middle-r.Patch) }
	var best *table.Release
	for _, r := range published {
		if r.Compare(from) > 0 && r.Compare(to) < 0 && (best == nil || distance(r) < distance(*best)) {
			best = &r
		}
	}
	if best == nil {
		return nil, nil
	}
	b, err := g.build(ctx, *best)
	if err != nil {
		return nil, err
	}
	return &b, nil
}

// publishedReleases returns the releases that the module of toolchains lists, asked for once.
func (g *generator) publishedReleases(ctx context.Context) ([]table.Release, error) {
	if g.published != nil {
		return g.published, nil
	}
	list, err := g.builder.Published(ctx)
	g.published = list
	return list, err
}
