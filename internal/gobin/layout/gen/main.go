// Command gen writes the embedded table of package layout. For each Go release in the table and each architecture, it
// builds a probe program with that release and reads the layouts of the runtime's structs from it.
//
// Run it in the root of the module:
//
//	go generate ./internal/gobin/layout                        # rebuilds all releases and rewrites the table
//	go run ./internal/gobin/layout/gen -add 1.27.5             # adds releases; only those are built
//	go run ./internal/gobin/layout/gen -bisect                 # adds releases until each change within a minor version is located
//	go run ./internal/gobin/layout/gen -check                  # fails with a diff if the table is not up to date
//	go run ./internal/gobin/layout/gen -check -latest          # the same, only for the latest release of each minor version
//	go run ./internal/gobin/layout/gen -check -releases 1.27.4 # the same, only for the given releases
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	table  string
	add    []table.Release
	bisect bool
	check  bool
	latest bool
	chosen []table.Release
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("gen", flag.ContinueOnError)
	flags.StringVar(&o.table, "table", "internal/gobin/layout/table.txt", "the table's `file`")
	add := flags.String("add", "", "comma-separated `releases` to add, such as 1.27.5")
	flags.BoolVar(&o.bisect, "bisect", false, "add releases until each change within a minor version is located")
	flags.BoolVar(&o.check, "check", false, "compare with the table instead of writing it")
	flags.BoolVar(&o.latest, "latest", false, "with -check: only the latest release of each minor version")
	only := flags.String("releases", "", "with -check: only these comma-separated `releases`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.add, err = parseReleases(*add); err != nil {
		return o, err
	}
	if o.chosen, err = parseReleases(*only); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case !o.check && (o.latest || len(o.chosen) > 0):
		return o, errors.New("-latest and -releases require -check")
	case o.check && (len(o.add) > 0 || o.bisect):
		return o, errors.New("-check cannot be combined with -add or -bisect")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(o.table)
	if err != nil {
		return err
	}
	old, err := table.Open(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", o.table, err)
	}
	start := time.Now()
	g, err := newGenerator(ctx, old)
	if err != nil {
		return err
	}
	defer g.close()
	if o.check {
		if o.latest {
			o.chosen = append(o.chosen, latestOfMinors(old.Releases())...)
		}
		return g.check(ctx, string(text), o.chosen)
	}
	builds, err := g.collect(ctx, o.add)
	if err != nil {
		return err
	}
	if o.bisect {
		if builds, err = g.bisect(ctx, builds); err != nil {
			return err
		}
	}
	out := table.Write(header, builds)
	fmt.Printf("%s: %d releases, %d bytes, %v\n", o.table, len(builds), len(out), time.Since(start).Round(time.Second/10))
	return os.WriteFile(o.table, out, 0o644)
}

// parseReleases reads a comma-separated list.
func parseReleases(list string) ([]table.Release, error) {
	var releases []table.Release
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		r, rest, err := table.ParseRelease(strings.TrimPrefix(word, "go"))
		if err != nil || rest != "" {
			return nil, fmt.Errorf("%q is not a Go release", word)
		}
		releases = append(releases, r)
	}
	return releases, nil
}

// latestOfMinors returns the last of each minor's releases, which are in order.
func latestOfMinors(releases []table.Release) []table.Release {
	var latest []table.Release
	for i, r := range releases {
		if i+1 == len(releases) || releases[i+1].Minor != r.Minor {
			latest = append(latest, r)
		}
	}
	return latest
}
