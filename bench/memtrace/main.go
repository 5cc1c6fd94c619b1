// Command memtrace measures what package memtrace costs a program, next to other ways to count allocations.
//
//	go run ./bench/memtrace [-rounds 5] [-calls 3000]
//
// Each way is a process of its own, and the ways take turns. The output is the processor time of an allocation and all that
// comes with it, the garbage collector included, or of a goroutine that starts, allocates an object and ends; and its ratio to the
// program without any of this in the same round.
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

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/bench/memtrace/work"
)

func main() {
	rounds := flag.Int("rounds", 5, "measurements of each way")
	calls := flag.Int("calls", 3000, "calls of a workload in each measurement")
	flag.Parse()
	if err := run(*rounds, *calls); err != nil {
		log.Fatal(err)
	}
	if err := counters(*rounds); err != nil {
		log.Fatal(err)
	}
}

// way is one way to run the workloads.
type way struct {
	name       string
	program    string
	commands   []string // to the program, before it runs a workload
	goroutines int
	engine     loupe.Engine // that counts the program's allocations; empty: none
}

const many = 10_000

var ways = []way{
	{name: "bare", program: "bare", goroutines: 1},
	{name: "memtrace imported, not used", program: "traced", goroutines: 1},
	{name: "memtrace, another goroutine is traced", program: "traced", commands: []string{"patch"}, goroutines: 1},
	{name: "one Trace around everything", program: "traced", commands: []string{"traced"}, goroutines: 1},
	{name: "one Trace with a limit of bytes", program: "traced", commands: []string{"limited"}, goroutines: 1},
	{name: "one Trace with descendants", program: "traced", commands: []string{"descendants"}, goroutines: 1},
	{name: "loupe allocs, engine inline", program: "bare", goroutines: 1, engine: loupe.EngineInline},
	{name: "loupe allocs, engine uprobe", program: "bare", goroutines: 1, engine: loupe.EngineUprobe},
	{name: "runtime.MemProfileRate = 1", program: "bare", commands: []string{"profile all"}, goroutines: 1},
	{name: "bare, 10,000 goroutines", program: "bare", goroutines: many},
	{name: "10,000 traced goroutines", program: "traced", commands: []string{"traced"}, goroutines: many},
}

// perGoroutine is the workload whose numbers are those of a goroutine instead of an allocation.
const perGoroutine = "goroutines"

var workloads = []string{"trees", "json", "maps", perGoroutine}

func run(rounds, calls int) error {
	dir, err := os.MkdirTemp("", "loupe-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out, err := exec.Command("go", "build", "-o", dir, "./bench/memtrace/bare", "./bench/memtrace/traced").CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the programs: %w: %s", err, out)
	}
	results := map[string][]float64{} // nanoseconds of an allocation, by way and workload
	for range rounds {
		for _, w := range ways {
			if err := w.measure(dir, calls, results); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	fmt.Println("| way | trees: ns | ratio | JSON: ns | ratio | maps: ns | ratio | goroutines: ns | ratio |\n|---|---|---|---|---|---|---|---|---|")
	for _, w := range ways {
		base := ways[0]
		if w.goroutines == many {
			base = ways[slices.IndexFunc(ways, func(o way) bool { return o.goroutines == many })]
		}
		row := "| " + w.name
		for _, load := range workloads {
			var ratios []float64
			for i, ns := range results[w.name+load] {
				ratios = append(ratios, ns/results[base.name+load][i])
			}
			row += fmt.Sprintf(" | %.1f | %.2f", program.Median(results[w.name+load]), program.Median(ratios))
		}
		fmt.Println(row + " |")
	}
	return nil
}

// measure runs all workloads in a new process.
func (w *way) measure(dir string, calls int, results map[string][]float64) error {
	p, err := program.Start(exec.Command(filepath.Join(dir, w.program)))
	if err != nil {
		return err
	}
	defer p.Stop()
	for _, command := range w.commands {
		if err := ask(p, command, new(string)); err != nil {
			return err
		}
	}
	if w.engine != "" {
		s, err := loupe.Attach(context.Background(), loupe.PID(p.PID()),
			loupe.Options{Engine: w.engine, StackDepth: -1, Allocs: loupe.AllocOptions{By: loupe.AllocsByGoroutine}})
		if err != nil {
			return err
		}
		defer s.Close()
		go func() {
			for range s.Events() {
			}
		}()
		calls /= 10 // an allocation takes a microsecond or more with engine uprobe
	}
	for _, load := range workloads {
		var ns, objects int64
		if err := ask(p, fmt.Sprint(load, " ", w.goroutines, " ", calls), &ns, &objects); err != nil {
			return err
		}
		if load == perGoroutine {
			objects = int64(calls) * work.Goroutines // a trace with descendants allocates objects of its own
		}
		results[w.name+load] = append(results[w.name+load], float64(ns)/float64(objects))
	}
	return nil
}

// ask sends a command and reads the values of the answer.
func ask(p *program.Program, command string, values ...any) error {
	answer, err := p.Ask(command)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(answer, values...); err != nil {
		return fmt.Errorf("the answer to %q: %w", command, err)
	}
	return nil
}
