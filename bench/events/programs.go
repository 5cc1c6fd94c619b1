package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// programs prints how long each eBPF program of Loupe runs. That is what a hit costs beyond the trap itself.
func (b *bench) programs() error {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return fmt.Errorf("the kernel's statistics of eBPF programs: %w", err)
	}
	defer stats.Close()
	fmt.Println("From the kernel's statistics, which add some time to each run.")
	fmt.Println()
	header("target", "way", "program", "runs/s", "ns a run")
	asleep := depth{"disabled", order{StackDepth: stacks, Asleep: true}}
	for _, s := range busy {
		for _, d := range append(slices.Clone(depths), asleep) {
			if err := b.runs(s, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs prints the programs of one observation.
func (b *bench) runs(s scene, d depth) error {
	t, err := b.start(s)
	if err != nil {
		return err
	}
	defer t.Kill()
	w, err := b.startObserver(t, s.observer(), d.order)
	if err != nil {
		return err
	}
	time.Sleep(warmUp)
	before, err := loaded(w.p.PID())
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := s.pass(t, b.time); err != nil {
		return err
	}
	after, err := loaded(w.p.PID())
	if err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	var ran []programRuns
	for id, p := range after {
		p.count -= before[id].count
		p.took -= before[id].took
		if float64(p.count)/took >= leastRuns {
			ran = append(ran, p)
		}
	}
	slices.SortFunc(ran, func(a, b programRuns) int { return int(b.took - a.took) })
	for _, p := range ran {
		row(s.name, d.name, p.name, number(float64(p.count)/took), number(float64(p.took.Nanoseconds())/float64(p.count)))
	}
	return w.close()
}

// leastRuns is how many times a second a program must run to be shown.
const leastRuns = 1000

// programRuns is what the kernel says of one program.
type programRuns struct {
	name  string
	count uint64
	took  time.Duration
}

// loaded returns the programs that a process holds, by their numbers. The kernel tells them in its file descriptors.
func loaded(pid int) (map[ebpf.ProgramID]programRuns, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		return nil, err
	}
	list := map[ebpf.ProgramID]programRuns{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			var id ebpf.ProgramID
			if n, _ := fmt.Sscanf(line, "prog_id: %d", &id); n == 0 {
				continue
			}
			if list[id], err = runsOf(id); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

func runsOf(id ebpf.ProgramID) (r programRuns, err error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return r, err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return r, err
	}
	stats, err := p.Stats()
	if err != nil {
		return r, err
	}
	return programRuns{info.Name, stats.RunCount, stats.Runtime}, nil
}
