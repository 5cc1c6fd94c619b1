// Command glti measures what the tool interface costs a program without an agent: a program that `loupe go build` compiled, compared with the
// same program that the go command compiled.
//
//	go run ./bench/glti [-rounds 9]
//
// Both are built by the toolchain of the current directory, or of GOTOOLCHAIN, and take turns. The output is the median of the
// ratios of their times, round by round. A third column has the ratio when all events that the runtime reports are written to
// the rings.
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
	rounds := flag.Int("rounds", 9, "measurements of each program")
	flag.Parse()
	if err := run(context.Background(), *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, rounds int) error {
	dir, err := os.MkdirTemp("", "bench-glti-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stock, patched := filepath.Join(dir, "stock"), filepath.Join(dir, "patched")
	if err := build(ctx, stock, patched); err != nil {
		return err
	}
	ways := [][]string{{stock}, {patched}, {patched, "0x7fffffffffff"}}
	ratios := map[string][2][]float64{}
	var names []string
	stockTimes := map[string][]float64{}
	for range rounds {
		var times [3]map[string]float64
		for i, way := range ways {
			if times[i], names, err = measure(ctx, way); err != nil {
				return err
			}
		}
		for _, name := range names {
			r := ratios[name]
			for i := range r {
				r[i] = append(r[i], times[i+1][name]/times[0][name])
			}
			ratios[name] = r
			stockTimes[name] = append(stockTimes[name], times[0][name])
		}
	}
	fmt.Println("| operation | stock, ns | no agent | all events to the rings |\n|---|---|---|---|")
	for _, name := range names {
		fmt.Printf("| %s | %.1f | %.3f | %.2f |\n", name, median(stockTimes[name]), median(ratios[name][0]), median(ratios[name][1]))
	}
	return nil
}

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

// measure runs the program once.
func measure(ctx context.Context, command []string) (times map[string]float64, names []string, err error) {
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	times = map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if times[name], err = strconv.ParseFloat(value, 64); err != nil {
			return nil, nil, err
		}
		names = append(names, name)
	}
	return times, names, nil
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
