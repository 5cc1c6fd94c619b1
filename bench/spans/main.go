// Command spans measures what request spans cost: with Loupe, and with a server that is instrumented by hand.
//
//	go run ./bench/spans [-rounds 5] [-time 2s] [-ways REGEXP]
//
// A server is under wrk, with two handlers and two numbers of connections. The ways take turns, and between them the server runs alone,
// so that a slow phase of the machine affects all of them. Server, wrk and observer share the processors. Loupe's observer is the command
// loupe spans, whose output is discarded. The server that is instrumented by hand discards its spans, too. For comparison, a process uses a
// processor for 2 of 12 milliseconds, and does nothing with it; and uprobes are attached whose programs return at once. The command
// requires root and wrk.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/bench/internal/wrk"
)

func main() {
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "measurements of each way")
	flag.DurationVar(&b.time, "time", 2*time.Second, "length of a measurement")
	flag.Func("ways", "only ways whose name matches this `regexp`", func(text string) (err error) {
		b.only, err = regexp.Compile(text)
		return err
	})
	silentPID := flag.Int("silent", 0, "only attach uprobes that report nothing to the process `PID`, as ways of this name do")
	burns := flag.Bool("burn", false, "only use a processor, as the way of this name does")
	breakdown := flag.Bool("breakdown", false, "with -silent: also those of a breakdown")
	flag.Parse()
	if *silentPID != 0 {
		if err := silent(*silentPID, *breakdown); err != nil {
			log.Fatal(err)
		}
		return
	}
	if *burns {
		burn()
	}
	if err := b.run(); err != nil {
		log.Fatal(err)
	}
}

// bench is one run of the benchmark.
type bench struct {
	rounds int
	time   time.Duration
	only   *regexp.Regexp // names of ways; nil: all
	dir    string         // of executables
}

// A way is a server with or without an observer.
type way struct {
	name   string
	byHand bool     // the server is instrumented
	args   []string // of loupe spans; nil: the server is not observed
	self   []string // instead, arguments of this command
	prints string   // what loupe spans prints in addition to requests
}

// function is one that each request calls, and that both engines can observe.
const function = "net/http.(*ServeMux).findHandler"

// profilerMap is where the map for profilers is pinned.
const profilerMap = "/sys/fs/bpf/loupe-bench/traces_ctx_v1"

// ways returns the ways that are measured. Those that count allocations or observe calls have the breakdown, and propagate no contexts.
func (b *bench) ways() []way {
	all := []way{
		{name: "uprobe, without breakdown", args: []string{"--engine", "uprobe", "--no-breakdown"}},
		{name: "uprobe", args: []string{"--engine", "uprobe"}},
		{name: "uprobe, map for profilers", args: []string{"--engine", "uprobe", "--profiler-map=" + profilerMap}},
		{name: "inline, without breakdown", args: []string{"--engine", "inline", "--no-breakdown", "--propagate=false"}},
		{name: "inline", args: []string{"--engine", "inline", "--propagate=false"}},
		{name: "inline, propagating contexts", args: []string{"--engine", "inline"}},
		{name: "uprobe, --allocs", args: []string{"--engine", "uprobe", "--allocs"}, prints: "ALLOC"},
		{name: "inline, --allocs", args: []string{"--engine", "inline", "--propagate=false", "--allocs"}, prints: "ALLOC"},
		{name: "uprobe, --func of one call a request", args: []string{"--engine", "uprobe", "--func", function}, prints: function},
		{name: "inline, --func of one call a request", args: []string{"--engine", "inline", "--propagate=false", "--func", function}, prints: function},
		{name: "otelhttp by hand", byHand: true},
		{name: "burn", self: []string{"-burn"}},
		{name: "silent uprobes, without breakdown", self: []string{"-silent"}},
		{name: "silent uprobes", self: []string{"-breakdown", "-silent"}},
	}
	return slices.DeleteFunc(all, func(w way) bool { return b.only != nil && !b.only.MatchString(w.name) })
}

func (b *bench) run() (err error) {
	if b.rounds < 1 {
		return fmt.Errorf("-rounds %d is less than 1", b.rounds)
	}
	if b.dir, err = os.MkdirTemp("", "loupe-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	defer os.RemoveAll(filepath.Dir(profilerMap))
	if err := b.build(); err != nil {
		return err
	}
	for _, path := range []string{"hello", "orders"} {
		for _, connections := range []int{10, 100} {
			if err := b.table(path, connections); err != nil {
				return err
			}
		}
	}
	return b.first()
}

// build builds the command and the servers. These are a module of their own.
func (b *bench) build() error {
	for _, cmd := range []*exec.Cmd{
		exec.Command("go", "build", "-o", filepath.Join(b.dir, "loupe"), "./cmd/loupe"),
		exec.Command("go", "build", "-C", "bench/spans/web", "-ldflags=-s -w", "-o", filepath.Join(b.dir, "web"), "."),
		exec.Command("go", "build", "-C", "bench/spans/web", "-ldflags=-s -w", "-tags", "sdk", "-o", filepath.Join(b.dir, "byhand"), "."),
	} {
		if len(cmd.Args) > 5 { // a server
			cmd.Env = append(os.Environ(), "GOWORK=off")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
}

// server starts a server and returns its address.
func (b *bench) server(name string) (*program.Program, string, error) {
	p, err := program.Start(exec.Command(filepath.Join(b.dir, name)))
	if err != nil {
		return nil, "", err
	}
	addr, err := p.Line()
	return p, addr, err
}

// A load is one run of wrk.
type load struct {
	wrk.Result
	server   float64 // processor time for each request, in nanoseconds
	observer float64 // processors that the observer uses
	memory   float64 // resident memory of the observer, in bytes
	relative float64 // the rate compared with those of the server alone, before and after
}

// table measures all ways with one handler.
func (b *bench) table(path string, connections int) error {
	ways := b.ways()
	results := make([][]load, len(ways))
	var alone []load
	for range b.rounds {
		for i, w := range ways {
			before, err := b.measure(way{}, path, connections)
			if err != nil {
				return err
			}
			with, err := b.measure(w, path, connections)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			after, err := b.measure(way{}, path, connections)
			if err != nil {
				return err
			}
			with.relative = 2 * with.Rate / (before.Rate + after.Rate)
			results[i] = append(results[i], with)
			alone = append(alone, before, after)
		}
	}
	fmt.Printf("\nGET /%s, %d connections:\n\n", path, connections)
	fmt.Println("| way | requests/s | relative to alone | p50 | p99 | server's processor time a request | observer's processors | observer's memory |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	print := func(name string, list []load) {
		of := func(f func(load) float64) float64 {
			var values []float64
			for _, l := range list {
				values = append(values, f(l))
			}
			return program.Median(values)
		}
		relative, observer, memory := "", "", ""
		if r := of(func(l load) float64 { return l.relative }); r > 0 {
			relative = fmt.Sprintf("%.0f %%", 100*r)
		}
		if m := of(func(l load) float64 { return l.memory }); m > 0 {
			memory = fmt.Sprintf("%.0f MB", m/1e6)
			observer = fmt.Sprintf("%.2f", of(func(l load) float64 { return l.observer }))
		}
		round := func(f func(load) time.Duration) time.Duration {
			return time.Duration(of(func(l load) float64 { return float64(f(l)) })).Round(10 * time.Microsecond)
		}
		fmt.Printf("| %s | %.0f | %s | %v | %v | %.1f µs | %s | %s |\n", name, of(func(l load) float64 { return l.Rate }), relative,
			round(func(l load) time.Duration { return l.P50 }), round(func(l load) time.Duration { return l.P99 }), of(func(l load) float64 { return l.server })/1000, observer, memory)
	}
	print("alone", alone)
	for i, w := range ways {
		print(w.name, results[i])
	}
	return nil
}

// measure starts a server and its observer, and runs wrk.
func (b *bench) measure(w way, path string, connections int) (l load, err error) {
	name := "web"
	if w.byHand {
		name = "byhand"
	}
	server, addr, err := b.server(name)
	if err != nil {
		return l, err
	}
	defer server.Stop()
	url := "http://" + addr + "/" + path
	o, err := b.observe(w, server.PID())
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	if _, err := runWrk(url, connections, time.Second); err != nil { // warms up
		return l, err
	}
	cpu, observerCPU, began := program.CPU(server.PID()), program.CPU(o.pid()), time.Now()
	if l.Result, err = runWrk(url, connections, b.time); err != nil {
		return l, err
	}
	took := time.Since(began)
	l.server = float64(program.CPU(server.PID())-cpu) / float64(l.Requests)
	l.observer = float64(program.CPU(o.pid())-observerCPU) / float64(took)
	l.memory = float64(residentOf(o.pid()))
	return l, nil
}

func runWrk(url string, connections int, d time.Duration) (wrk.Result, error) {
	out, err := wrk.Command(url, connections, d).Output()
	if err != nil {
		return wrk.Result{}, fmt.Errorf("wrk: %w", err)
	}
	return wrk.Parse(string(out))
}

// An observer is a process that observes a server; nil: the server is not observed.
type observer struct {
	cmd    *exec.Cmd
	out    bytes.Buffer // what loupe spans prints at its end
	prints string       // see way
	silent bool         // it prints nothing
}

// burn uses a processor for a part of the time, for ever.
func burn() {
	for {
		time.Sleep(10 * time.Millisecond)
		for began := time.Now(); time.Since(began) < 2*time.Millisecond; {
		}
	}
}

// ready is the time after which an observer is attached.
const ready = 2 * time.Second

// observe starts an observer, and waits until it is attached.
func (b *bench) observe(w way, pid int) (*observer, error) {
	o := &observer{prints: w.prints, silent: w.self != nil}
	switch {
	case w.self != nil:
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.cmd = exec.Command(self, w.self...)
		if !slices.Contains(w.self, "-burn") {
			o.cmd.Args = append(o.cmd.Args, fmt.Sprint(pid))
		}
		o.cmd.Stderr = &o.out
	case w.args != nil:
		o.cmd = exec.Command(filepath.Join(b.dir, "loupe"), append([]string{"spans", fmt.Sprint(pid)}, w.args...)...)
	default:
		return nil, nil
	}
	o.cmd.Stdout = &o.out
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	time.Sleep(ready)
	return o, nil
}

func (o *observer) pid() int {
	if o == nil {
		return 0
	}
	return o.cmd.Process.Pid
}

// stop ends the observer, which must have observed requests.
func (o *observer) stop() error {
	if o == nil {
		return nil
	}
	if err := o.cmd.Process.Signal(unix.SIGINT); err != nil {
		return err
	}
	err := o.cmd.Wait()
	text := o.out.String()
	switch status, ok := o.cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case o.silent && text != "":
		err = fmt.Errorf("%s has printed:\n%s", o.cmd, text)
	case o.silent && ok && status.Signal() == unix.SIGINT: // as the burning process ends
		err = nil
	case !o.silent && err == nil && (!strings.Contains(text, "GET /") || !strings.Contains(text, o.prints)):
		err = fmt.Errorf("loupe spans has not observed what it was to:\n%s", text)
	}
	return err
}

// residentOf returns the largest resident memory of a process, or 0 if the process does not exist.
func residentOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kB int64
	fmt.Sscan(rest, &kB)
	return kB << 10
}

// first measures the time from the start of the command to the first span.
func (b *bench) first() error {
	fmt.Printf("\nFrom the start of the command to the first span, while the server answers a request each millisecond:\n\n| engine | time |\n|---|---|\n")
	for _, engine := range []string{"uprobe", "inline"} {
		var times []time.Duration
		for range b.rounds {
			took, err := b.firstOf(engine)
			if err != nil {
				return err
			}
			times = append(times, took)
		}
		fmt.Printf("| %s | %v |\n", engine, program.Median(times).Round(time.Millisecond))
	}
	return nil
}
