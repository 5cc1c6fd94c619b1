package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// toolchainSource is the program around the toolchain's package.
//
//go:embed testdata/toolchain/main.go
var toolchainSource []byte

// buildToolchain builds the program around internal/trace/raw. Only packages of the Go tree may import that one, so the
// program is laid over the tree, as cmd/loupe-tracefile, for this build alone.
func buildToolchain(dir string) (path string, err error) {
	root, err := output("go", "env", "GOROOT")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, toolchainSource, 0o666); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(root, "src/cmd/loupe-tracefile/main.go"): source,
	}})
	if err != nil {
		return "", err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o666); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "toolchain")
	_, err = output("go", "build", "-overlay", overlayFile, "-o", path, "cmd/loupe-tracefile")
	return path, err
}

// recordTrace records a trace by the program that the tests of trace/raw use.
func recordTrace(dir string, rounds int) (file string, err error) {
	pkg, err := output("go", "list", "-f", "{{.Dir}}", "github.com/loupe-go/loupe/trace/raw")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "recorder")
	if err := os.CopyFS(source, os.DirFS(filepath.Join(pkg, "testdata/recorder"))); err != nil {
		return "", err
	}
	language, _, _ := strings.Cut(strings.TrimPrefix(runtime.Version(), "go"), " ")
	if err := os.WriteFile(filepath.Join(source, "go.mod"), []byte("module recorder\n\ngo "+language+"\n"), 0o666); err != nil {
		return "", err
	}
	program := filepath.Join(dir, "recorder.exe")
	if _, err := output("go", "build", "-C", source, "-o", program, "."); err != nil {
		return "", err
	}
	file = filepath.Join(dir, runtime.Version()+".trace")
	_, err = output(program, file, strconv.Itoa(rounds), "0s")
	return file, err
}

// output returns what a command prints, and puts what it says on standard error into the error.
func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// A toolchain is a process that measures the toolchain's package: one round for each line that it is sent.
type toolchain struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	answer *bufio.Reader
}

func startToolchain(helper, direction, file string) (*toolchain, error) {
	cmd := exec.Command(helper, direction, file)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &toolchain{cmd, input, bufio.NewReader(stdout)}, cmd.Start()
}

// round has one round measured.
func (t *toolchain) round() (events int64, took time.Duration, err error) {
	if _, err := io.WriteString(t.input, "go\n"); err != nil {
		return 0, 0, err
	}
	line, err := t.answer.ReadString('\n')
	if err != nil {
		return 0, 0, err
	}
	line = strings.TrimSuffix(line, "\n")
	if message, bad := strings.CutPrefix(line, "error "); bad {
		return 0, 0, errors.New(message)
	}
	if _, err := fmt.Sscan(line, &events, &took); err != nil {
		return 0, 0, fmt.Errorf("%q: %w", line, err)
	}
	return events, took, nil
}

// stop ends the process. It may be called for nil, and twice.
func (t *toolchain) stop() {
	if t != nil {
		t.input.Close()
		t.cmd.Wait()
	}
}
