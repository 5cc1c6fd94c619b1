package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/testtarget"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testvm:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	arch     string
	kernel   string
	cpus     int
	memory   string
	programs []string
	releases []string
	limit    time.Duration
	whole    time.Duration
	jobs     [][]string // each a package and its flags
}

func parseFlags() (options, error) {
	var o options
	var programs, releases string
	flag.StringVar(&o.arch, "arch", testtarget.ARM64, "architecture: arm64 or amd64")
	flag.StringVar(&o.kernel, "kernel", "", "kernel: a file vmlinuz, a Debian package's file, or the name of a Debian package (default linux-image-ARCH)")
	flag.IntVar(&o.cpus, "smp", 2, "number of processors")
	flag.StringVar(&o.memory, "m", "3G", "memory")
	flag.StringVar(&programs, "programs", "mixer,churn,mill,tiny,selftrace", "targets that the tests use (package testtarget)")
	flag.StringVar(&releases, "go", "1.12.17,1.17.13,1.18.10,"+testtarget.Latest(), "Go releases that build them, or all")
	flag.DurationVar(&o.limit, "limit", 10*time.Minute, "time for the tests of each package")
	flag.DurationVar(&o.whole, "whole", time.Hour, "time for all")
	flag.Parse()
	if o.kernel == "" {
		o.kernel = "linux-image-" + o.arch
	}
	o.programs = strings.Split(programs, ",")
	if o.releases = strings.Split(releases, ","); releases == "all" {
		o.releases = testtarget.AllVersions()
	}
	for args := flag.Args(); len(args) > 0; {
		n := slices.Index(args, "--")
		if n < 0 {
			n = len(args)
		}
		if n == 0 {
			return o, errors.New("a package is missing before --")
		}
		o.jobs = append(o.jobs, args[:n])
		args = args[min(n+1, len(args)):]
	}
	if len(o.jobs) == 0 {
		return o, errors.New("which package's tests? See go doc ./internal/testvm")
	}
	if _, ok := machines[o.arch]; !ok {
		return o, fmt.Errorf("no machine for architecture %q", o.arch)
	}
	return o, nil
}

func run(ctx context.Context) error {
	o, err := parseFlags()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "testvm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	kernel, err := findKernel(o, work)
	if err != nil {
		return err
	}
	initrd := filepath.Join(work, "initrd")
	if err := makeInitrd(o, work, initrd); err != nil {
		return err
	}
	return emulate(ctx, o, kernel, initrd)
}
