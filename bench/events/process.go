package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/bench/internal/program"
)

// The processors of a benchmark that keeps target and observer apart.
const (
	anywhere   = -1
	targetCPU  = 0
	observeCPU = 1
)

// startProgram starts a program on one processor, or anywhere.
func startProgram(cpu int, env []string, path string, args ...string) (*program.Program, error) {
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	p, err := program.Prepare(cmd)
	if err != nil {
		return nil, err
	}
	return p, startOn(cpu, cmd)
}

// startOn starts a command so that all its threads run on one processor, and that it ends when this process does. It is
// called on the main thread only: the kernel ties the death signal to the thread that starts a process.
func startOn(cpu int, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if cpu == anywhere {
		return cmd.Start()
	}
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("processor %d: %w", cpu, err)
	}
	defer unix.SchedSetaffinity(0, &old)
	return cmd.Start()
}

// target is a program that is observed.
type target struct {
	*program.Program
	exe   string
	ready string // the line that it printed when it was ready
}

// startTarget starts a program of this benchmark.
func (b *bench) startTarget(name string, procs, cpu int, args ...string) (*target, error) {
	exe, err := b.build(name)
	if err != nil {
		return nil, err
	}
	p, err := startProgram(cpu, []string{fmt.Sprint("GOMAXPROCS=", procs)}, exe, args...)
	if err != nil {
		return nil, err
	}
	t := &target{Program: p, exe: exe}
	if t.ready, err = p.Line(); err != nil {
		p.Kill()
		return nil, err
	}
	return t, nil
}

// build builds a target program once.
func (b *bench) build(name string) (string, error) {
	return program.Build(b.dir, "./bench/events/"+name)
}

// reading is how many operations a target has done, and when.
type reading struct{ ops, ns, cpu int64 }

func (t *target) read() (r reading, err error) {
	line, err := t.Ask("ops")
	if err != nil {
		return r, err
	}
	_, err = fmt.Sscan(line, &r.ops, &r.ns, &r.cpu)
	return r, err
}

// work is what a target has done in a while.
type work struct {
	ops       int64
	took, cpu time.Duration
}

// per returns nanoseconds of processor time an operation. For a target that is always busy on one processor that is the
// time on the wall, but for what other programs take from that processor.
func (w work) per() float64 { return float64(w.cpu.Nanoseconds()) / float64(w.ops) }

// rate returns operations a second.
func (w work) rate() float64 { return float64(w.ops) / w.took.Seconds() }

// during lets the target work while something else happens.
func (t *target) during(happens func() error) (work, error) {
	before, err := t.read()
	if err != nil {
		return work{}, err
	}
	if err := happens(); err != nil {
		return work{}, err
	}
	after, err := t.read()
	return work{after.ops - before.ops, time.Duration(after.ns - before.ns), time.Duration(after.cpu - before.cpu)}, err
}
