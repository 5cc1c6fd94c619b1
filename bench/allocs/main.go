// Command allocs measures what it costs a program that Loupe counts its allocations, by engine and by what they are summed by,
// and what the memory profile of the runtime costs that records all of them.
//
//	go run ./bench/allocs [-n 300000] [-rounds 9] [-engine inline]
//
// All ways observe the same process and take turns. The output is the processor time of an allocation, the garbage collector
// included, and the median of the differences to the program alone in the same round.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/bench/internal/program"
)

func main() {
	n := flag.Int("n", 300_000, "allocations of each measurement")
	rounds := flag.Int("rounds", 9, "measurements of each way")
	engine := flag.String("engine", "", "measure only this engine")
	flag.Parse()
	if err := run(*n, *rounds, loupe.Engine(*engine)); err != nil {
		log.Fatal(err)
	}
}

// way is one way to count allocations.
type way struct {
	name   string
	engine loupe.Engine // empty: none
	by     loupe.AllocsBy
	stack  int
	rate   int // runtime.MemProfileRate; 0: as it is
	sample bool
}

const defaultRate = 512 << 10

var ways = []way{
	{name: "the program alone"},
	{name: "inline, by goroutine", engine: loupe.EngineInline, by: loupe.AllocsByGoroutine, stack: -1},
	{name: "inline, by type and size", engine: loupe.EngineInline, by: loupe.AllocsByPlace, stack: -1},
	{name: "inline, by stack", engine: loupe.EngineInline, by: loupe.AllocsByPlace, stack: loupe.DefaultStackDepth},
	{name: "inline, by goroutine and stack", engine: loupe.EngineInline, by: loupe.AllocsByGoroutine | loupe.AllocsByPlace, stack: loupe.DefaultStackDepth},
	{name: "uprobe, by goroutine", engine: loupe.EngineUprobe, by: loupe.AllocsByGoroutine, stack: -1},
	{name: "uprobe, by goroutine and stack", engine: loupe.EngineUprobe, by: loupe.AllocsByGoroutine | loupe.AllocsByPlace, stack: loupe.DefaultStackDepth},
	{name: "inline, samples", engine: loupe.EngineInline, sample: true, rate: defaultRate},
	{name: "uprobe, samples", engine: loupe.EngineUprobe, sample: true, rate: defaultRate},
	{name: "runtime.MemProfileRate = 1", rate: 1},
}

var workloads = []string{"small", "tree"}

func run(n, rounds int, engine loupe.Engine) error {
	dir, err := os.MkdirTemp("", "loupe-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := startTarget(dir)
	if err != nil {
		return err
	}
	defer t.Stop()
	chosen := slices.DeleteFunc(slices.Clone(ways), func(w way) bool { return engine != "" && w.engine != "" && w.engine != engine })
	results := map[string][]float64{} // nanoseconds of an allocation, by way and workload
	for range rounds {
		for _, w := range chosen {
			if err := measure(t, w, n, results); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	fmt.Println("| way | small: ns | more | tree: ns | more |")
	fmt.Println("|---|---|---|---|---|")
	for _, w := range chosen {
		row := "| " + w.name
		for _, load := range workloads {
			alone, own := results[chosen[0].name+load], results[w.name+load]
			var more []float64
			for i := range own {
				more = append(more, own[i]-alone[i])
			}
			row += fmt.Sprintf(" | %.0f | %.0f", program.Median(own), program.Median(more))
		}
		fmt.Println(row + " |")
	}
	return nil
}

// startTarget starts the program that allocates.
func startTarget(dir string) (*program.Program, error) {
	exe, err := program.Build(dir, "./bench/allocs/target")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	return program.Start(cmd)
}

// ask sends a command and returns the number in the answer.
func ask(t *program.Program, command string, n int) (int64, error) {
	answer, err := t.Ask(command, n)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

// measure measures all workloads while a way is in use.
func measure(t *program.Program, w way, n int, results map[string][]float64) error {
	if w.rate != 0 {
		if _, err := ask(t, "rate", w.rate); err != nil {
			return err
		}
		defer ask(t, "rate", defaultRate)
	}
	if w.engine != "" {
		s, err := loupe.Attach(context.Background(), loupe.PID(t.PID()), loupe.Options{Engine: w.engine, StackDepth: w.stack, Allocs: loupe.AllocOptions{By: w.by, Sample: w.sample}})
		if err != nil {
			return err
		}
		defer s.Close()
		go func() {
			for range s.Events() {
			}
		}()
	}
	for _, load := range workloads {
		ns, err := ask(t, load, n)
		if err != nil {
			return err
		}
		results[w.name+load] = append(results[w.name+load], float64(ns)/float64(n))
	}
	return nil
}
