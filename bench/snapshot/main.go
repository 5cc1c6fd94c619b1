// Command snapshot compares methods to list all goroutines of a running program: Loupe, the pprof endpoint and Delve.
// All of them inspect the same process in one run. The output is a table with the time that each method takes, the
// remaining speed of the program in the meantime, and the time for which the program was stopped.
//
//	go run ./bench/snapshot [-n 100000] [-rounds 5] [-procs 1] [-only 3]
//
// Delve is built from its module on first use.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
)

const delve = "github.com/go-delve/delve/cmd/dlv@v1.27.2"

func main() {
	n := flag.Int("n", 100_000, "goroutines of the target")
	rounds := flag.Int("rounds", 5, "measurements of each way")
	only := flag.Int("only", 0, "measure only the first `N` ways")
	procs := flag.Int("procs", 1, "GOMAXPROCS of the target")
	flag.Parse()
	// As loupe has it on a machine with two processors.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(400)
	if err := run(*n, *rounds, *procs, *only); err != nil {
		log.Fatal(err)
	}
}

// way is one way to see the goroutines.
type way struct {
	name  string
	look  func() error
	count func() (goroutines int, err error) // that the last look saw
}

func run(n, rounds, procs, only int) error {
	dir, err := os.MkdirTemp("", "loupe-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	target, err := startTarget(dir, n, procs)
	if err != nil {
		return err
	}
	defer target.stop()
	ways, err := target.ways(dir)
	if err != nil {
		return err
	}
	if only > 0 && only < len(ways) {
		ways = ways[:only]
	}
	fmt.Printf("%d goroutines, GOMAXPROCS=%d, medians of %d rounds\n\n", n, procs, rounds)
	fmt.Println("| way | goroutines seen | seconds | speed of the program meanwhile | longest stall |")
	fmt.Println("|---|---|---|---|---|")
	results := make([][]result, len(ways))
	for range rounds { // the ways take turns, so that a slow phase of the machine hits all
		for i, w := range ways {
			r, err := target.measure(w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			results[i] = append(results[i], r)
		}
	}
	for i, w := range ways {
		fmt.Printf("| %s | %d | %.2f | %.1f %% | %s |\n", w.name, results[i][0].seen,
			median(results[i], func(r result) float64 { return r.seconds }),
			100*median(results[i], func(r result) float64 { return r.speed }),
			time.Duration(median(results[i], func(r result) float64 { return float64(r.stall) })).Round(100*time.Microsecond))
	}
	return nil
}

// result is one measurement.
type result struct {
	seen    int
	seconds float64
	speed   float64       // operations a second while looking, as a part of those just before
	stall   time.Duration // longest time without an operation while looking
}

func median(results []result, value func(result) float64) float64 {
	var v []float64
	for _, r := range results {
		v = append(v, value(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// target is the running program.
type target struct {
	cmd *exec.Cmd
	url string
}

func startTarget(dir string, n, procs int) (*target, error) {
	exe := filepath.Join(dir, "crowd")
	if out, err := exec.Command("go", "build", "-o", exe, "./bench/crowd").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the target: %w\n%s", err, out)
	}
	cmd := exec.Command(exe, fmt.Sprint(n))
	cmd.Env = append(os.Environ(), fmt.Sprint("GOMAXPROCS=", procs))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &target{cmd: cmd}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.stop()
		return nil, fmt.Errorf("the target ended: %w", err)
	}
	t.url = "http://" + strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	return t, nil
}

func (t *target) stop() {
	t.cmd.Process.Kill()
	t.cmd.Wait()
}

// idleLoop is how long the loop runs that shows what the machine alone costs the target: two processors often share a core.
const idleLoop = 400 * time.Millisecond

// ways returns what is compared. The Loupe command is measured as a whole, and its snapshot alone.
func (t *target) ways(dir string) ([]way, error) {
	loupe, dlv := filepath.Join(dir, "loupe"), filepath.Join(dir, "dlv")
	if out, err := exec.Command("go", "build", "-o", loupe, "./cmd/loupe").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building loupe: %w\n%s", err, out)
	}
	install := exec.Command("go", "install", delve)
	install.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := install.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building Delve: %w\n%s", err, out)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("goroutines -t\nexit -c\n"), 0o600); err != nil {
		return nil, err
	}
	pid, out := fmt.Sprint(t.cmd.Process.Pid), filepath.Join(dir, "out")
	counted := func(prefixes ...string) func() (int, error) {
		return func() (int, error) {
			f, err := os.Open(out)
			if err != nil {
				return 0, err
			}
			defer f.Close()
			return countPrefix(f, prefixes...)
		}
	}
	seen, memory := 0, make([]byte, 128<<20)
	alone := func(pause bool) func() error {
		return func() (err error) {
			seen, err = t.snapshot(pause)
			return err
		}
	}
	last := func() (int, error) { return seen, nil }
	return []way{
		{"a loop on the other processor that reads nothing", func() error {
			for begin := time.Now(); time.Since(begin) < idleLoop; {
				seen = 0
			}
			return nil
		}, last},
		{"a loop that copies its own memory", func() error {
			for begin := time.Now(); time.Since(begin) < idleLoop; {
				seen = copy(memory[:len(memory)/2], memory[len(memory)/2:]) * 0
			}
			return nil
		}, last},
		{"a loop that allocates memory", func() error {
			for begin := time.Now(); time.Since(begin) < idleLoop; {
				fresh := make([]byte, 32<<20)
				for i := 0; i < len(fresh); i += 4096 {
					fresh[i] = 1
				}
			}
			return nil
		}, last},
		{"loupe, the snapshot alone", alone(false), last},
		{"loupe --pause, the snapshot alone", alone(true), last},
		{"loupe goroutines PID", func() error {
			return into(out, exec.Command(loupe, "goroutines", "--group=false", pid))
		}, counted("goroutine ")},
		{"GET /debug/pprof/goroutine?debug=2", func() error { return t.pprof(out) }, counted("goroutine ")},
		{"dlv attach PID; goroutines -t", func() error {
			return into(out, exec.Command(dlv, "attach", pid, "--init", script, "--allow-non-terminal-interactive=true"))
		}, counted("  Goroutine ", "* Goroutine ")},
	}, nil
}

func (t *target) snapshot(pause bool) (int, error) {
	p, err := goproc.Open(t.cmd.Process.Pid, goproc.Options{})
	if err != nil {
		return 0, err
	}
	defer p.Close()
	s, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{Pause: pause})
	if err != nil {
		return 0, err
	}
	return len(s.Goroutines), nil
}

// pprof keeps what the target's own endpoint says in a file.
func (t *target) pprof(path string) error {
	r, err := http.Get(t.url + "/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, r.Body)
	return err
}

// into runs a command with its output into a file: to read it meanwhile would take a processor from the target.
func into(path string, cmd *exec.Cmd) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) { // Delve detaches with a status of its own; what it has printed counts
			return err
		}
	}
	return nil
}

func countPrefix(r io.Reader, prefixes ...string) (int, error) {
	n := 0
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, p := range prefixes {
			if strings.HasPrefix(lines.Text(), p) {
				n++
			}
		}
	}
	return n, lines.Err()
}

// reading is what the target says of its work.
type reading struct {
	ops, ns, longest int64
}

func (t *target) read() (reading, error) {
	resp, err := http.Get(t.url + "/ops")
	if err != nil {
		return reading{}, err
	}
	defer resp.Body.Close()
	var r reading
	_, err = fmt.Fscan(resp.Body, &r.ops, &r.ns, &r.longest)
	return r, err
}

// measure looks once, and compares the target's speed meanwhile with that of a second before and a second after.
func (t *target) measure(w way) (result, error) {
	var reads [4]reading
	var err error
	read := func(i int) {
		if err == nil {
			reads[i], err = t.read()
		}
	}
	read(0)
	time.Sleep(time.Second)
	read(1)
	begin := time.Now()
	lookErr := w.look()
	took := time.Since(begin)
	read(2)
	time.Sleep(time.Second)
	read(3)
	if err := errors.Join(lookErr, err); err != nil {
		return result{}, err
	}
	seen, err := w.count()
	if err != nil {
		return result{}, err
	}
	speed := func(a, b reading) float64 { return float64(b.ops-a.ops) / float64(b.ns-a.ns) }
	alone := (speed(reads[0], reads[1]) + speed(reads[2], reads[3])) / 2
	return result{seen: seen, seconds: took.Seconds(), speed: speed(reads[1], reads[2]) / alone, stall: time.Duration(reads[2].longest)}, nil
}
