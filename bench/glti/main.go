// Command glti measures what the tool interface costs a program without an agent: a program that `loupe go build` compiled, compared with the
// same program that the go command compiled.
//
//	go run ./bench/glti [-rounds 21] [-only OPERATION]
//
// Both are built by the toolchain of the current directory, or of GOTOOLCHAIN, and take turns. The output is the median of the
// ratios of their processor time, round by round. The last column has the ratio when all events that the runtime reports are
// written to the rings.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/overlay"
)

const source = "internal/overlay/testdata/standin"

func main() {
	rounds := flag.Int("rounds", 21, "measurements of each program")
	only := flag.String("only", "", "measure only this operation")
	flag.Parse()
	if err := run(context.Background(), *rounds, *only); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, rounds int, only string) error {
	dir, err := os.MkdirTemp("", "bench-glti-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stock, patched := filepath.Join(dir, "stock"), filepath.Join(dir, "patched")
	if err := build(ctx, stock, patched); err != nil {
		return err
	}
	list, err := exec.CommandContext(ctx, stock).Output()
	if err != nil {
		return err
	}
	fmt.Println("| operation | stock, ns | no agent | all events to the rings |\n|---|---|---|---|")
	for _, name := range strings.Fields(string(list)) {
		if only != "" && name != only {
			continue
		}
		var times, without, with []float64
		for range rounds {
			var t [3]float64
			for i, way := range [][]string{{stock, name}, {patched, name}, {patched, name, allEvents}} {
				if t[i], err = measure(ctx, way); err != nil {
					return err
				}
			}
			times, without, with = append(times, t[0]), append(without, t[1]/t[0]), append(with, t[2]/t[0])
		}
		fmt.Printf("| %s | %.1f | %.3f | %.2f |\n", name, median(times), median(without), median(with))
	}
	return nil
}

// allEvents selects all events.
const allEvents = "0x1ffffffffffff"

// build builds the program twice.
func build(ctx context.Context, stock, patched string) error {
	cache, err := overlay.CacheDir()
	if err != nil {
		return err
	}
	// The module of the program is not in the workspace.
	if err := os.Setenv("GOWORK", "off"); err != nil {
		return err
	}
	begin := time.Now()
	c, err := overlay.Prepare(ctx, "build", []string{"-C", source, "-o", patched, "./work"}, cache)
	if err != nil {
		return err
	}
	fmt.Printf("overlay made or found in %v\n", time.Since(begin).Round(time.Millisecond))
	plain := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", stock, "./work")
	with := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	with.Env = c.Env
	for _, cmd := range []*exec.Cmd{plain, with} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	a, err := os.Stat(stock)
	if err != nil {
		return err
	}
	b, err := os.Stat(patched)
	if err != nil {
		return err
	}
	fmt.Printf("size of the executable: %d bytes, %.2f %% more than stock\n\n", b.Size(), 100*float64(b.Size()-a.Size())/float64(a.Size()))
	return nil
}

// measure runs the program once, and returns the processor time of an operation in nanoseconds.
func measure(ctx context.Context, command []string) (float64, error) {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
