package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The processors of a benchmark that keeps target and observer apart.
const (
	anywhere   = -1
	targetCPU  = 0
	observeCPU = 1
)

// process is a program that is spoken to by lines: one in, one out.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startProcess starts a program on one processor, or anywhere.
func startProcess(cpu int, env []string, path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := startOn(cpu, p.cmd); err != nil {
		return nil, err
	}
	return p, nil
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

func (p *process) pid() int { return p.cmd.Process.Pid }

// line reads a line.
func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s ended: %w", filepath.Base(p.cmd.Path), err)
	}
	return line[:len(line)-1], nil
}

// ask sends a line and reads the answer.
func (p *process) ask(question string) (string, error) {
	if _, err := io.WriteString(p.in, question+"\n"); err != nil {
		return "", err
	}
	return p.line()
}

// askJSON is ask for an answer in JSON.
func (p *process) askJSON(question string, answer any) error {
	line, err := p.ask(question)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(line), answer)
}

// stop lets the program end by itself.
func (p *process) stop() error {
	p.in.Close()
	return p.cmd.Wait()
}

// kill ends the program.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// target is a program that is observed.
type target struct {
	*process
	exe   string
	ready string // the line that it printed when it was ready
}

// startTarget starts a program of this benchmark.
func (b *bench) startTarget(name string, procs, cpu int, args ...string) (*target, error) {
	exe, err := b.build(name)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(cpu, []string{fmt.Sprint("GOMAXPROCS=", procs)}, exe, args...)
	if err != nil {
		return nil, err
	}
	t := &target{process: p, exe: exe}
	if t.ready, err = p.line(); err != nil {
		p.kill()
		return nil, err
	}
	return t, nil
}

// build builds a target program once.
func (b *bench) build(name string) (string, error) { return b.buildPackage("./bench/events/" + name) }

// buildPackage builds a program once.
func (b *bench) buildPackage(path string) (string, error) {
	name := filepath.Base(path)
	exe := filepath.Join(b.dir, name)
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	out, err := exec.Command("go", "build", "-o", exe, path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return exe, nil
}

// reading is how many operations a target has done, and when.
type reading struct{ ops, ns, cpu int64 }

func (t *target) read() (r reading, err error) {
	line, err := t.ask("ops")
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
