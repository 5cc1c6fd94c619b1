//go:build linux

// Command init is the first process of the machine that package testvm emulates. It mounts the file systems that the
// tests need, runs the commands of a list one after the other, and powers off the machine.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testvm/job"
)

// runner is the name by which init starts itself again: the first process has only to wait for orphans.
const runner = "runner"

func main() {
	if os.Args[0] == runner {
		run()
		return
	}
	if err := boot(); err != nil {
		fmt.Println(job.Failed, err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	for {
		unix.Pause()
	}
}

// boot prepares the machine and has the commands run.
func boot() error {
	if err := mountAll(); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("the loopback interface: %w", err)
	}
	cmd := exec.Command("/init")
	cmd.Args[0] = runner
	cmd.Env = []string{"HOME=/root", "PATH=/bin:/usr/bin", "TMPDIR=/tmp"}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == cmd.Process.Pid || err != nil && err != unix.EINTR {
			return err
		}
	}
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/tmp"}, {"tmpfs", "/dev/shm"}, {"devpts", "/dev/pts"},
		{"cgroup2", "/sys/fs/cgroup"}, {"bpf", "/sys/fs/bpf"}, {"debugfs", "/sys/kernel/debug"}, {"tracefs", "/sys/kernel/tracing"},
	} {
		// The kernel has made the places below /sys; where it has none, there is no such file system.
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			continue
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	// Tests run programs as other users too.
	return os.Chmod("/tmp", 0o1777)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// run carries out the list of commands.
func run() {
	text, err := os.ReadFile(job.ListPath)
	if err != nil {
		fmt.Println(job.Failed, err)
		return
	}
	var jobs []job.Job
	if err := json.Unmarshal(text, &jobs); err != nil {
		fmt.Println(job.Failed, err)
		return
	}
	failed := 0
	for _, j := range jobs {
		begin := time.Now()
		fmt.Println(job.Begins, j)
		err := carryOut(j)
		if err != nil {
			failed++
		} else {
			err = fmt.Errorf("ok")
		}
		fmt.Printf("%s %v: %v (%.0f s)\n", job.Ended, j, err, time.Since(begin).Seconds())
	}
	if failed > 0 {
		fmt.Printf("%s %d of %d\n", job.Failed, failed, len(jobs))
		return
	}
	fmt.Printf("%s %d\n", job.Passed, len(jobs))
}

func carryOut(j job.Job) error {
	ctx, cancel := context.WithTimeout(context.Background(), j.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, j.Args[0], j.Args[1:]...)
	cmd.Dir = j.Dir
	cmd.Env = append(os.Environ(), j.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); ctx.Err() != nil {
		return fmt.Errorf("not at its end after %v: %w", j.Limit, err)
	} else if err != nil {
		return err
	}
	return nil
}
