package testcmd

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A variable that is set to "" is removed.
var environment = map[string]string{
	"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": "", "CLICOLOR": "", "CLICOLOR_FORCE": "",
	"COLUMNS": "", "LINES": "", "PAGER": "",
	"TZ": "UTC", "LANG": "C.UTF-8", "LANGUAGE": "", "LC_ALL": "", "LC_CTYPE": "", "LC_COLLATE": "", "LC_MESSAGES": "",
	"LC_MONETARY": "", "LC_NUMERIC": "", "LC_TIME": "",
	"GODEBUG": "", "GOGC": "", "GOMEMLIMIT": "", "GOMAXPROCS": "", "GOTRACEBACK": "", "GORACE": "", "GOEXPERIMENT": "",
}

// umask is that of most systems.
const umask = 0o022

// The world is defined when the package is initialised: before a test or TestMain runs, and before the time package
// reads TZ.
func init() {
	if err := defineWorld(); err != nil {
		fmt.Fprintln(os.Stderr, "testcmd:", err)
		os.Exit(1)
	}
}

func defineWorld() error {
	unix.Umask(umask)
	if err := setLimits(); err != nil {
		return err
	}
	if err := setEnvironment(); err != nil {
		return err
	}
	if testing.Testing() {
		shareExecutable()
	}
	return heedSignals()
}

// inherited is set in the environment of what a test starts. A test executable that a test has started keeps the
// variables that it was given.
const inherited = "LOUPE_TEST_WORLD"

func setEnvironment() error {
	if os.Getenv(inherited) != "" {
		return nil
	}
	for name, value := range environment {
		err := os.Setenv(name, value)
		if value == "" {
			err = os.Unsetenv(name)
		}
		if err != nil {
			return err
		}
	}
	return os.Setenv(inherited, "1")
}

// shareExecutable lets other users run this test executable, which the go command built under the umask of its own. Tests
// that do so fail and say so when it is another user's.
func shareExecutable() { _ = os.Chmod("/proc/self/exe", 0o755) }

// setLimits allows as many open files as the hard limit does, and no core files. Package os does the former for this
// process alone; only what is set by package syscall is passed on.
func setLimits() error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("getrlimit: %w", err)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	return nil
}

// heedSignals makes the commands that this process starts heed the signals that it was started to ignore. The os/exec
// package resets in a child the signals that this process catches; what is caught here is dropped, so that this process
// still ignores them.
func heedSignals() error {
	ignored, err := ignoredSignals()
	if err != nil {
		return err
	}
	for _, s := range ignored {
		signal.Notify(make(chan os.Signal, 1), s)
	}
	return nil
}

// ignoredSignals returns the standard signals that this process ignores. Make starts commands with signals 32 and 33
// ignored, which are the C library's own: package signal cannot catch 32.
func ignoredSignals() ([]unix.Signal, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(status)) {
		text, ok := strings.CutPrefix(line, "SigIgn:")
		if !ok {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("/proc/self/status: SigIgn: %w", err)
		}
		var list []unix.Signal
		for s := range unix.Signal(31) {
			if mask>>s&1 != 0 {
				list = append(list, s+1)
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("/proc/self/status has no SigIgn")
}
