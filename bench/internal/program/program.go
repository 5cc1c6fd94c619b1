// Package program builds, starts and asks the programs that benchmarks observe. A program answers each line of its stdin with
// a line on its stdout, and ends with its stdin.
package program

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Program is a running program.
type Program struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Build builds the package at path, such as "./bench/crowd", into a directory unless it is there already. It returns the path of
// the executable.
func Build(dir, path string) (exe string, err error) {
	name := filepath.Base(path)
	exe = filepath.Join(dir, name)
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	if out, err := exec.Command("go", "build", "-o", exe, path).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return exe, nil
}

// Start starts a command.
func Start(cmd *exec.Cmd) (*Program, error) {
	p, err := Prepare(cmd)
	if err != nil {
		return nil, err
	}
	return p, cmd.Start()
}

// Prepare returns the Program of a command that the caller starts.
func Prepare(cmd *exec.Cmd) (*Program, error) {
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	return &Program{cmd, in, bufio.NewReader(out)}, err
}

// PID returns the program's process ID.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Line returns the next line of the program's output.
func (p *Program) Line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s ended: %w", filepath.Base(p.cmd.Path), err)
	}
	return strings.TrimSpace(line), nil
}

// Ask sends a line, formatted as by [fmt.Sprintln], and returns the answer. An answer that begins with "error" is an error.
func (p *Program) Ask(question ...any) (string, error) {
	if _, err := fmt.Fprintln(p.in, question...); err != nil {
		return "", err
	}
	answer, err := p.Line()
	if strings.HasPrefix(answer, "error") {
		return "", errors.New(strings.TrimSpace(fmt.Sprintln(question...)) + ": " + answer)
	}
	return answer, err
}

// AskJSON is like Ask, for an answer in JSON, which it decodes.
func (p *Program) AskJSON(question string, answer any) error {
	line, err := p.Ask(question)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(line), answer)
}

// Stop closes the program's stdin and waits until the program has ended.
func (p *Program) Stop() error {
	p.in.Close()
	return p.cmd.Wait()
}

// Kill kills the program.
func (p *Program) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Median returns the median of values, or the zero value of T if values is empty.
func Median[T cmp.Ordered](values []T) T {
	if len(values) == 0 {
		return *new(T)
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// CPU returns the processor time of a process, kernel included, or 0 if the process does not exist.
func CPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var user, system int64
	_, rest, _ := strings.Cut(string(text), ") ")
	words := strings.Fields(rest)
	fmt.Sscan(words[11], &user)
	fmt.Sscan(words[12], &system)
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures
	return time.Duration(user+system) * tick
}
