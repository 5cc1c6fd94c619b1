// Command glti measures what the tool interface costs a program: a program that `loupe go build` compiled, compared with the same program
// that the go command compiled.
//
//	go run ./bench/glti [-rounds 21] [-only OPERATION] [-build]
//
// Both are built by the toolchain of the current directory, or of GOTOOLCHAIN, and take turns. In each round they are copied to new files:
// two copies of the same program can differ by more than two percent, as long as they exist, because of the memory in which the kernel
// caches them.
//
// The first table has the median of the ratios of their processor time, round by round: without agent; with an agent that counts collections,
// and goroutines that start and end; with all events written to the buffers and read; and, for comparison, of the stock program while it
// records an execution trace and discards it. The second table has the time from the start of the program to its end if it does nothing.
// With -build, the third has the time to build it with an empty cache, and again.
package main

import (
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/loupe-go/loupe/bench/internal/program"
)

const source = "internal/overlay/testdata/standin"

func main() {
	rounds := flag.Int("rounds", 21, "measurements of each program")
	only := flag.String("only", "", "measure only this operation")
	builds := flag.Bool("build", false, "measure how long it takes to build the program")
	flag.Parse()
	if err := run(context.Background(), *rounds, *only, *builds); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, rounds int, only string, builds bool) error {
	dir, err := os.MkdirTemp("", "bench-glti-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stock, patched := filepath.Join(dir, "stock"), filepath.Join(dir, "patched")
	if err := build(ctx, stock, patched); err != nil {
		return err
	}
	if err := operations(ctx, stock, patched, rounds, only); err != nil {
		return err
	}
	if err := starts(ctx, dir, stock, patched); err != nil {
		return err
	}
	if builds {
		return buildTimes(ctx, dir, stock, patched)
	}
	return nil
}

// operations prints the table of operations.
func operations(ctx context.Context, stock, patched string, rounds int, only string) error {
	list, err := exec.CommandContext(ctx, stock).Output()
	if err != nil {
		return err
	}
	ways := []struct{ name, program, agent string }{
		{"stock, ns", stock, ""},
		{"no agent", patched, ""},
		{"counters", patched, "counters"},
		{"callbacks that count", patched, "callbacks"},
		{"all events to the buffers", patched, "rings"},
		{"runtime/trace", stock, "trace"},
	}
	header := "| operation |"
	for _, w := range ways {
		header += " " + w.name + " |"
	}
	fmt.Println(header + "\n" + strings.Repeat("|---", len(ways)+1) + "|")
	for _, name := range strings.Fields(string(list)) {
		if only != "" && name != only {
			continue
		}
		values := make([][]float64, len(ways))
		for range rounds {
			base := 0.0
			for i, w := range ways {
				if i == 0 || w.program != ways[i-1].program {
					if err := renew(w.program); err != nil {
						return err
					}
				}
				t, err := measure(ctx, w.program, name, w.agent)
				if err != nil {
					return err
				}
				if i == 0 {
					base = t
					values[0] = append(values[0], t)
					continue
				}
				values[i] = append(values[i], t/base)
			}
		}
		fmt.Printf("| %s | %.1f |", name, program.Median(values[0]))
		for _, v := range values[1:] {
			fmt.Printf(" %.2f |", program.Median(v))
		}
		fmt.Println()
	}
	return nil
}

// renew replaces a program by a copy of it.
func renew(program string) error {
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := os.Remove(program); err != nil {
		return err
	}
	return os.WriteFile(program, code, 0o755)
}

// starts prints the table of starts. The agent is glti/samples/counter, if there is a C compiler.
func starts(ctx context.Context, dir, stock, patched string) error {
	ways := []struct {
		name, program string
		env           []string
	}{{"stock", stock, nil}, {"no agent", patched, nil}}
	agent := filepath.Join(dir, "counter.so")
	if err := program.BuildCounter(ctx, agent); err != nil {
		log.Print(err)
	} else {
		ways = append(ways, struct {
			name, program string
			env           []string
		}{"a native agent", patched, []string{"GO_GLTI_AGENT=" + agent}})
	}
	const rounds = 301
	times := make([][]float64, len(ways))
	for range rounds {
		for i, w := range ways {
			cmd := exec.CommandContext(ctx, w.program)
			cmd.Env = append(os.Environ(), w.env...)
			begin := time.Now()
			if err := cmd.Run(); err != nil {
				return err
			}
			times[i] = append(times[i], time.Since(begin).Seconds()*1000)
		}
	}
	fmt.Println("\n| start to end | ms |\n|---|---|")
	for i, w := range ways {
		fmt.Printf("| %s | %.2f |\n", w.name, program.Median(times[i]))
	}
	return nil
}

// buildTimes prints the table of builds.
func buildTimes(ctx context.Context, dir, stock, patched string) error {
	fmt.Println("\n| build | empty cache, s | again, s |\n|---|---|---|")
	for _, name := range []string{"go", "loupe go"} {
		if err := os.Setenv("GOCACHE", filepath.Join(dir, "cache "+name)); err != nil {
			return err
		}
		var seconds [2]float64
		for i := range seconds {
			cmd, err := command(ctx, name == "loupe go", map[bool]string{false: stock, true: patched}[name == "loupe go"])
			if err != nil {
				return err
			}
			begin := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w\n%s", cmd, err, out)
			}
			seconds[i] = time.Since(begin).Seconds()
		}
		fmt.Printf("| %s | %.1f | %.2f |\n", name, seconds[0], seconds[1])
	}
	return nil
}

// command returns the command that builds the program.
func command(ctx context.Context, hooks bool, to string, flags ...string) (*exec.Cmd, error) {
	flags = append([]string{"-C", source, "-o", to}, flags...)
	return program.GoBuild(ctx, hooks, append(flags, "./work")...)
}

// build builds the program twice.
func build(ctx context.Context, stock, patched string) error {
	// The module of the program is not in the workspace.
	if err := os.Setenv("GOWORK", "off"); err != nil {
		return err
	}
	for hooks, to := range map[bool]string{false: stock, true: patched} {
		if err := buildAligned(ctx, hooks, to); err != nil {
			return err
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

// buildAligned builds the program so that the variable of the scheduler begins at a cache line. If it is 32 bytes later, which any variable of a
// program can cause, to start a goroutine takes about 9 % longer.
func buildAligned(ctx context.Context, hooks bool, to string) error {
	var at uint64
	for _, flags := range [][]string{nil, {"-tags=shifted"}} {
		cmd, err := command(ctx, hooks, to, flags...)
		if err != nil {
			return err
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
		if at, err = scheduler(to); err != nil || at%64 == 0 {
			return err
		}
	}
	log.Printf("%s: the scheduler does not begin at a cache line, but at %#x", to, at)
	return nil
}

// scheduler returns the address of variable runtime.sched of an executable.
func scheduler(exe string) (uint64, error) {
	f, err := elf.Open(exe)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", exe, err)
	}
	for _, s := range list {
		if s.Name == "runtime.sched" {
			return s.Value, nil
		}
	}
	return 0, fmt.Errorf("%s has no runtime.sched", exe)
}

// measure runs the program once, and returns the processor time of an operation in nanoseconds. What the program lost is printed.
func measure(ctx context.Context, program, operation, agent string) (float64, error) {
	cmd := exec.CommandContext(ctx, program, operation)
	if agent != "" {
		cmd.Args = append(cmd.Args, agent)
	}
	var lost strings.Builder
	cmd.Stderr = &lost
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", cmd, err, lost.String())
	}
	if lost.Len() > 0 {
		log.Printf("%s, %s: %s", operation, agent, strings.TrimSpace(lost.String()))
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}
