package goproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/container"
)

// Resolve returns the PIDs of the processes that match target: a PID, the path of an executable, the base name of an
// executable, the command name in /proc/PID/comm, or a container or pod: see [container.ParseTarget].
func Resolve(target string) ([]int, error) { return resolve(target, container.LogDirs()) }

func resolve(target string, logDirs []string) ([]int, error) {
	t, isContainer, err := container.ParseTarget(target)
	if err != nil {
		return nil, err
	}
	if !isContainer || t.Implicit() {
		pids, err := resolveProcess(target)
		if !isContainer || !errors.Is(err, ErrNoProcess) {
			return pids, err
		}
	}
	match, err := t.Matcher(logDirs)
	if err != nil {
		return nil, err
	}
	return resolveBy(target, func(pid int) bool {
		ref, err := container.Of(pid)
		return err == nil && match(ref)
	})
}

// resolveProcess returns the PIDs of the processes that match a target other than a container or pod.
func resolveProcess(target string) ([]int, error) {
	if pid, err := strconv.Atoi(target); err == nil {
		if pid <= 0 {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			return nil, fmt.Errorf("process %d: %w", pid, ErrNoProcess)
		}
		return []int{pid}, nil
	}
	match, err := Matching(target)
	if err != nil {
		return nil, err
	}
	return resolveBy(target, match)
}

// resolveBy returns the PIDs of the processes for which match returns true.
func resolveBy(target string, match func(pid int) bool) ([]int, error) {
	all, err := PIDs()
	if err != nil {
		return nil, err
	}
	var found []int
	for _, pid := range all {
		if pid != os.Getpid() && match(pid) {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: %w", target, ErrNoProcess)
	}
	return found, nil
}

// Matching returns a predicate for the processes that match the path or name of an executable, or the name of a process. It is
// for a search that takes place now, because the file at a path can be replaced.
func Matching(target string) (func(pid int) bool, error) {
	if strings.ContainsRune(target, filepath.Separator) {
		return matchPath(target)
	}
	return matchName(target), nil
}

// matchPath returns a predicate for processes that execute the file at a path: the same file, or the same path in the
// process's own mount namespace.
func matchPath(path string) (func(pid int) bool, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	st, statErr := os.Stat(abs)
	return func(pid int) bool {
		link := fmt.Sprintf("/proc/%d/exe", pid)
		if statErr == nil {
			if exe, err := os.Stat(link); err == nil && os.SameFile(st, exe) {
				return true
			}
		}
		name, err := os.Readlink(link)
		return err == nil && strings.TrimSuffix(name, " (deleted)") == abs
	}, nil
}

// matchName returns a predicate for processes with the given name.
func matchName(name string) func(pid int) bool {
	return func(pid int) bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == name {
			return true
		}
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err == nil && strings.TrimSuffix(string(comm), "\n") == name
	}
}
