package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// connections is the number of clients of a load.
const connections = 10

// A result is what was measured of a server.
type result struct {
	*server
	sizes                  map[string]int64
	ways                   []*measured
	answers, answersDiffer int
	lines, linesDiffer     int
	exits                  []string // each exit status once
}

// measured are the measurements of a way, in the order of rounds. Ratios are to the first way in the same round.
type measured struct {
	way
	cpu, cpuRatio, rateRatio, p99, p99Ratio []float64 // µs a message; ms
	agent                                   string    // the last line that the agent printed
}

// A turn is one run of a server.
type turn struct {
	cpu, seconds, p99 float64
	answers           []answer
	exit              string
	output            []string // its lines, sorted, without what differs each time
	agent             string
}

func median(values []float64) float64 { return program.Median(values) }

// measure builds a server and runs it in all ways.
func measure(ctx context.Context, c config, s *server) (*result, error) {
	dir := filepath.Join(c.dir, s.name)
	err := s.build(ctx, dir)
	if err != nil {
		return nil, err
	}
	r := &result{server: s, sizes: map[string]int64{}}
	for _, w := range ways {
		info, err := os.Stat(filepath.Join(dir, w.executable))
		if err != nil {
			return nil, err
		}
		r.sizes[w.executable] = info.Size()
		if !w.native || c.native != "" {
			r.ways = append(r.ways, &measured{way: w})
		}
	}
	at := &site{}
	if at.addrs, err = freeAddresses(); err != nil {
		return nil, err
	}
	// The directory is in memory, so that no server waits for a disk.
	if at.dir, err = os.MkdirTemp("/dev/shm", "bench-servers-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(at.dir)
	for round := range c.rounds {
		log.Printf("%s: round %d of %d", s.name, round+1, c.rounds)
		turns := make([]*turn, len(r.ways))
		for i := range r.ways {
			n := (i + round) % len(r.ways) // another way begins each round
			w := r.ways[n]
			var env []string
			if w.native {
				env = []string{"GO_GLTI_AGENT=" + c.native}
			}
			turns[n], err = s.run(ctx, filepath.Join(dir, w.executable), env, at, max(connections, int(float64(s.requests)*c.scale)))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.name, err)
			}
		}
		for i, w := range r.ways {
			w.add(turns[i], turns[0])
			r.compare(w.name, turns[i], turns[0])
		}
	}
	return r, nil
}

func (m *measured) add(t, first *turn) {
	m.cpu, m.p99, m.agent = append(m.cpu, t.cpu), append(m.p99, t.p99), t.agent
	m.cpuRatio, m.rateRatio = append(m.cpuRatio, t.cpu/first.cpu), append(m.rateRatio, first.seconds/t.seconds)
	m.p99Ratio = append(m.p99Ratio, t.p99/first.p99)
}

// compare compares a turn with the first one of its round, and prints what differs.
func (r *result) compare(way string, t, first *turn) {
	if !slices.Contains(r.exits, t.exit) {
		r.exits = append(r.exits, t.exit)
	}
	if t == first {
		return
	}
	for i, want := range first.answers {
		r.answers++
		if got := t.answers[i]; got != want {
			r.answersDiffer++
			log.Printf("%s: %s: answer to %q: %s", r.name, way, want.request, difference(got.text, want.text))
		}
	}
	for _, line := range first.output {
		r.lines++
		if !slices.Contains(t.output, line) {
			r.linesDiffer++
			log.Printf("%s: %s: line of output is missing: %s", r.name, way, line)
		}
	}
	for _, line := range t.output {
		if !slices.Contains(first.output, line) {
			r.linesDiffer++
			log.Printf("%s: %s: additional line of output: %s", r.name, way, line)
		}
	}
}

// difference returns the first lines of two texts that differ.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%.500q instead of %.500q", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(a), len(b))
}

// freeAddresses returns addresses at which no server listens.
func freeAddresses() (addrs [3]string, err error) {
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return addrs, err
		}
		defer l.Close() // after all have been found, so that they differ
		addrs[i] = l.Addr().String()
	}
	return addrs, nil
}

// run runs a server once.
func (s *server) run(ctx context.Context, exe string, env []string, at *site, requests int) (*turn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := os.RemoveAll(at.dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(at.dir, 0o755); err != nil {
		return nil, err
	}
	args, err := s.arguments(at)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Dir, cmd.Args[0] = at.dir, s.name // the servers print it
	cmd.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+at.dir, "OTEL_TRACES_EXPORTER=none")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	t := &turn{}
	err = s.drive(ctx, at, cmd.Process.Pid, requests, t)
	if err == nil {
		err = cmd.Process.Signal(unix.SIGTERM)
	} else {
		err = errors.Join(err, cmd.Process.Kill())
	}
	var status *exec.ExitError
	if waitErr := cmd.Wait(); waitErr != nil && !errors.As(waitErr, &status) {
		err = errors.Join(err, waitErr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output.String())
	}
	t.exit = cmd.ProcessState.String()
	s.readOutput(t, output.String())
	return t, nil
}

// drive waits until a server is ready, compares its answers, and measures it under load.
func (s *server) drive(ctx context.Context, at *site, pid, requests int, t *turn) (err error) {
	deadline := time.Now().Add(time.Minute)
	for err = s.ready(ctx, at); err != nil; err = s.ready(ctx, at) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("the server is not ready: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if t.answers, err = s.answers(ctx, at); err != nil {
		return err
	}
	if _, err := s.load(ctx, at, requests/10+connections); err != nil {
		return err
	}
	cpu, begin := program.CPU(pid), time.Now()
	times, err := s.load(ctx, at, requests)
	if err != nil {
		return err
	}
	t.seconds = time.Since(begin).Seconds()
	t.cpu = float64((program.CPU(pid) - cpu).Nanoseconds()) / 1e3 / float64(len(times)*s.messages)
	slices.Sort(times)
	t.p99 = times[len(times)*99/100].Seconds() * 1e3
	return nil
}

// load sends requests, and returns the time of each.
func (s *server) load(ctx context.Context, at *site, requests int) (times []time.Duration, err error) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		next atomic.Int64
	)
	for range connections {
		u, failure := s.connect(ctx, at)
		if failure != nil {
			return nil, failure
		}
		defer u.close()
		wg.Go(func() {
			var own []time.Duration
			var failure error
			for failure == nil {
				n := int(next.Add(1))
				if n > requests {
					break
				}
				begin := time.Now()
				failure = u.request(ctx, n)
				own = append(own, time.Since(begin))
			}
			mu.Lock()
			defer mu.Unlock()
			times, err = append(times, own...), errors.Join(err, failure)
		})
	}
	wg.Wait()
	return times, err
}

var (
	agentLine = regexp.MustCompile(`^(agent|counter): `)
	// Addresses, keys, times and numbers differ each time.
	number = regexp.MustCompile(`0x[0-9a-f]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8,}\b|\bN[A-Z2-7]{55}\b|[0-9]+(\.[0-9]+)?((m|µ|n)?s\b)?`)
)

// readOutput stores the lines of what the server and its agent printed.
func (s *server) readOutput(t *turn, text string) {
	noise := regexp.MustCompile(s.noise)
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case agentLine.MatchString(line):
			t.agent = line
		case s.noise == "" || !noise.MatchString(line):
			lines = append(lines, inOrder(strings.ReplaceAll(number.ReplaceAllString(line, "0"), `"0"`, "0")))
		}
	}
	slices.Sort(lines)
	t.output = slices.Compact(lines)
}

// inOrder returns the parts of a line in order: the order of the elements of maps differs each time.
func inOrder(line string) string {
	parts := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(",[]{}", r) })
	slices.Sort(parts)
	return strings.Join(parts, ",")
}
