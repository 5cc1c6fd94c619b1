package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

func TestLatestOfMinors(t *testing.T) {
	releases, err := parseReleases("1.12,1.12.17,1.13,1.14.7,1.14.15,go1.21.0")
	if err != nil {
		t.Fatal(err)
	}
	want := []table.Release{{Minor: 12, Patch: 17}, {Minor: 13}, {Minor: 14, Patch: 15}, {Minor: 21}}
	if got := latestOfMinors(releases); !slices.Equal(got, want) {
		t.Errorf("latest of %v: %v, want %v", releases, got, want)
	}
}

func TestParseReleases(t *testing.T) {
	for _, list := range []string{"1.x", "2.1", "1.22.3rc1", "1.22 1.23", "go"} {
		if got, err := parseReleases(list); err == nil {
			t.Errorf("%q is read as %v", list, got)
		}
	}
}

func TestLineDiff(t *testing.T) {
	old := "releases 1.12\n\nstruct a amd64\n(size) 1.12=8\nx 1.12=0:8\n\nstruct b amd64\n(size) 1.12=8\nx 1.12=0:8\n"
	if diff := lineDiff(old, old); diff != "" {
		t.Errorf("equal tables differ: %q", diff)
	}
	now := strings.Replace(old, "(size) 1.12=8\nx 1.12=0:8\n\nstruct b", "(size) 1.12=8\nx 1.12=4:4\n\nstruct b", 1)
	want := "-[struct a amd64] x 1.12=0:8\n+[struct a amd64] x 1.12=4:4"
	if diff := lineDiff(old, now); diff != want {
		t.Errorf("diff %q, want %q", diff, want)
	}
	moved := "releases 1.12\n\nstruct b amd64\n(size) 1.12=8\nx 1.12=0:8\n\nstruct a amd64\n(size) 1.12=8\nx 1.12=0:8\n"
	if diff := lineDiff(old, moved); diff == "" {
		t.Error("tables in another order count as equal")
	}
	if diff := lineDiff("", strings.Repeat("x\n\ny\n", maxDiff*2)); strings.Count(diff, "\n") > maxDiff {
		t.Errorf("a diff of %d lines", strings.Count(diff, "\n"))
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-latest"}, {"-releases", "1.26.8"}, {"-check", "-add", "1.26.8"}, {"-check", "-bisect"}, {"word"}, {"-add", "x"},
	} {
		if o, err := parseOptions(args); err == nil {
			t.Errorf("%q is accepted as %+v", args, o)
		}
	}
	o, err := parseOptions([]string{"-check", "-latest", "-releases", "1.26.8,1.27.4"})
	if err != nil || !o.check || !o.latest || len(o.chosen) != 2 {
		t.Errorf("options %+v, %v", o, err)
	}
}
