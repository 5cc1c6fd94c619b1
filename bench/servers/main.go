// Command servers compares public servers that `loupe go build` compiled with the same servers that the go command compiled: their speed, their
// answers, and how they end.
//
//	go run ./bench/servers [-rounds 9] [-only SERVER] [-requests 1] [-dir DIR]
//
// The servers are modules that the go command downloads. Both builds use the toolchain of the current directory, or of GOTOOLCHAIN, and the same
// flags. In each round every way of running a server has its turn: the server starts in an empty directory, with the same addresses each
// time, answers the requests of a list, serves a load with a fixed number of requests, and receives SIGTERM. The ways are the stock server, the
// same again, which shows how much two equal programs differ here, and three with hooks: without an agent; with the native agent
// glti/samples/counter; and with a linked agent that registers all events (testdata/agent).
//
// The first table has the processor time of the server for each request, kernel included, and the medians of the ratios to the stock server
// of the same round. The second has the sizes and what was compared. A difference is printed, and the exit status is then 1.
//
// The executables and the sources stay in the directory of -dir, so that another run only starts them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// A way is one way to run a server.
type way struct {
	name       string
	executable string
	native     bool // loads the native agent
}

// The executables of a server, and the ways. The first way is what the others are compared with.
const (
	stock   = "stock"
	patched = "patched"
	linked  = "linked"
)

var ways = []way{
	{name: "stock", executable: stock},
	{name: "stock, again", executable: stock},
	{name: "no agent", executable: patched},
	{name: "native agent", executable: patched, native: true},
	{name: "linked agent, all events", executable: linked},
}

// config is what the flags select.
type config struct {
	rounds int
	only   string
	scale  float64
	dir    string
	native string // path of the native agent, "" if there is no C compiler
}

func main() {
	var c config
	flag.IntVar(&c.rounds, "rounds", 9, "measurements of each way")
	flag.StringVar(&c.only, "only", "", "measure only this server")
	flag.Float64Var(&c.scale, "requests", 1, "multiplies the number of requests")
	flag.StringVar(&c.dir, "dir", "", "keep sources and executables in this directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		log.Fatal(err)
	}
}

// errDifferent ends the command after its tables.
var errDifferent = errors.New("the servers differ")

func run(ctx context.Context, c config) error {
	work, err := os.MkdirTemp("", "bench-servers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if c.dir == "" {
		c.dir = work
	} else if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if c.dir, err = filepath.Abs(c.dir); err != nil {
		return err
	}
	c.native = buildNative(ctx, work)
	var results []*result
	for _, s := range servers {
		if c.only != "" && c.only != s.name {
			continue
		}
		r, err := measure(ctx, c, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return printTables(results)
}

// buildNative returns the path of the native agent, or "".
func buildNative(ctx context.Context, dir string) string {
	agent := filepath.Join(dir, "counter.so")
	if err := program.BuildCounter(ctx, agent); err != nil {
		log.Print(err)
		return ""
	}
	return agent
}

// printTables prints both tables, and returns errDifferent if something differed.
func printTables(results []*result) error {
	fmt.Println("| server | way | processor time a request, µs | relative to stock | requests/s relative to stock | p99, ms | p99 relative to stock |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for _, r := range results {
		for _, w := range r.ways {
			fmt.Printf("| %s | %s | %.2f |", r.name, w.name, median(w.cpu))
			if w.name == ways[0].name {
				fmt.Printf("  |  | %.2f |  |\n", median(w.p99))
				continue
			}
			fmt.Printf(" %.2f | %.2f | %.2f | %.2f |\n", median(w.cpuRatio), median(w.rateRatio), median(w.p99), median(w.p99Ratio))
		}
	}
	fmt.Println("\n| server | version | size, MB | larger with hooks | answers compared | different | lines of output compared | different | exit status |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	different := false
	for _, r := range results {
		fmt.Printf("| %s | %s | %.1f | %.2f %% | %d | %d | %d | %d | %s |\n", r.name, r.version, float64(r.sizes[stock])/1e6,
			100*(float64(r.sizes[patched])/float64(r.sizes[stock])-1), r.answers, r.answersDiffer, r.lines, r.linesDiffer, strings.Join(r.exits, ", "))
		different = different || r.answersDiffer+r.linesDiffer > 0 || len(r.exits) > 1
	}
	fmt.Println()
	for _, r := range results {
		for _, w := range r.ways {
			if w.agent != "" {
				fmt.Printf("%s, %s, in the last round: %s\n", r.name, w.name, w.agent)
			}
		}
	}
	if different {
		return errDifferent
	}
	return nil
}
