package goproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// procDir is the open /proc directory of one process: reads fail after the process has exited, even if its
// PID was reused.
type procDir struct {
	pid  int
	root *os.Root
}

func openProc(pid int) (*procDir, error) {
	root, err := os.OpenRoot(filepath.Join("/proc", strconv.Itoa(pid)))
	if err != nil {
		return nil, procError(pid, err)
	}
	return &procDir{pid: pid, root: root}, nil
}

func (d *procDir) close() { d.root.Close() }

// lockTime is how long another process may hold the lock: attaching takes seconds on a busy machine.
const lockTime = 20 * time.Second

// lock waits until no other process that observes this one holds the lock. The kernel releases it when its holder ends.
func (d *procDir) lock(ctx context.Context) (unlock func(), err error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, procError(d.pid, err)
	}
	for deadline := time.Now().Add(lockTime); ; time.Sleep(2 * time.Millisecond) {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			f.Close()
			return nil, fmt.Errorf("process %d: locking: %w", d.pid, err)
		case ctx.Err() != nil:
			f.Close()
			return nil, ctx.Err()
		case time.Now().After(deadline):
			f.Close()
			return nil, fmt.Errorf("process %d: %w: another Loupe has been attaching to it for %v", d.pid, ErrUnsupported, lockTime)
		}
	}
}

// read returns the contents of a file of the directory, at most 64 MiB.
func (d *procDir) read(name string) ([]byte, error) {
	b, err := d.root.ReadFile(name)
	if err != nil {
		return nil, procError(d.pid, err)
	}
	return b, nil
}

// procError converts an error of /proc to an error of this package.
func procError(pid int, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return fmt.Errorf("process %d: %w", pid, ErrNoProcess)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: %w", pid, ErrPermission)
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// procStat holds the fields of /proc/PID/stat that Loupe uses.
type procStat struct {
	state      byte
	ppid       int
	startTicks uint64 // since boot, in clock ticks

	// program identifies the program of the process: the start and end of its code, and the start of its stack, which is
	// different after each execve. It is "" for a process without memory, and equal for all processes if the kernel hides it.
	program string

	environ Extent // where the environment of the program is; empty if the kernel hides it

	// lastThread is set if no other thread is alive. In a process that calls execve the first thread may exit before the
	// others.
	lastThread bool
}

// stat reads /proc/PID/stat. The command name in it may contain any character, including parentheses and newlines.
func (d *procDir) stat() (procStat, error) {
	b, err := d.read("stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(b)
}

// ended reports whether the whole process has exited.
func (s procStat) ended() bool { return (s.state == 'Z' || s.state == 'X') && s.lastThread }

func parseStat(b []byte) (procStat, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procStat{}, fmt.Errorf("malformed stat line %q", b)
	}
	f := strings.Fields(string(b[end+1:]))
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("malformed stat line %q", b)
	}
	s := procStat{state: f[0][0]}
	var errPPID, errStart error
	s.ppid, errPPID = strconv.Atoi(f[1])
	s.startTicks, errStart = strconv.ParseUint(f[19], 10, 64)
	if len(f) >= 26 && f[23] != "0" {
		s.program = strings.Join(f[23:26], " ") // startcode, endcode, startstack of proc(5)
	}
	if len(f) >= 49 {
		start, startErr := strconv.ParseUint(f[47], 10, 64) // env_start and env_end of proc(5)
		end, endErr := strconv.ParseUint(f[48], 10, 64)
		if startErr == nil && endErr == nil && end > start {
			s.environ = Extent{start, end - start}
		}
	}
	s.lastThread = f[17] == "0" || f[17] == "1" // num_threads of proc(5)
	return s, errors.Join(errPPID, errStart)
}

// clockTicks is USER_HZ, the unit of times in /proc; it is 100 on every Linux that Go runs on.
const clockTicks = 100

// age returns how long ago the process started.
func (s procStat) age() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	started := time.Duration(s.startTicks) * (time.Second / clockTicks)
	return max(time.Duration(now.Nano())-started, 0)
}

// threads returns the kernel threads of the process: their IDs in this PID namespace, by their IDs in the namespace of the
// process, which its runtime uses.
func (d *procDir) threads() (map[int]int, error) {
	f, err := d.root.Open("task")
	if err != nil {
		return nil, procError(d.pid, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, procError(d.pid, err)
	}
	foreign := d.innerPID() != 0
	tids := make(map[int]int, len(names))
	for _, name := range names {
		tid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		inner := tid
		if foreign {
			inner = lastPID(d.statusFieldOf("task/"+name+"/status", "NSpid"))
		}
		if inner != 0 {
			tids[inner] = tid
		}
	}
	return tids, nil
}

// statusField returns the value of a line of /proc/PID/status, or "" if the file has no such line.
func (d *procDir) statusField(name string) string { return d.statusFieldOf("status", name) }

func (d *procDir) statusFieldOf(file, name string) string {
	b, err := d.read(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// innerPID returns the process's PID in its own PID namespace; 0 if that is this namespace.
func (d *procDir) innerPID() int {
	pids := d.statusField("NSpid")
	if len(strings.Fields(pids)) < 2 {
		return 0
	}
	return lastPID(pids)
}

// lastPID returns the last number in an NSpid line, which is the PID in the innermost namespace, or 0 if the line is empty.
func lastPID(pids string) int {
	f := strings.Fields(pids)
	if len(f) == 0 {
		return 0
	}
	pid, err := strconv.Atoi(f[len(f)-1])
	if err != nil {
		return 0
	}
	return pid
}

// monotonicOffset returns the difference between CLOCK_MONOTONIC in the time namespace of the process and in that of
// this process.
func (d *procDir) monotonicOffset() time.Duration {
	theirs, errTheirs := d.root.ReadFile("timens_offsets")
	ours, errOurs := os.ReadFile("/proc/self/timens_offsets")
	if errTheirs != nil || errOurs != nil {
		return 0 // kernels before 5.6 have no time namespaces
	}
	return monotonicLine(theirs) - monotonicLine(ours)
}

func monotonicLine(b []byte) time.Duration {
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "monotonic" {
			continue
		}
		sec, errSec := strconv.ParseInt(f[1], 10, 64)
		nsec, errNsec := strconv.ParseInt(f[2], 10, 64)
		if errSec == nil && errNsec == nil {
			return time.Duration(sec)*time.Second + time.Duration(nsec)
		}
	}
	return 0
}
