package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/internal/testvm/job"
)

// machines are the commands that emulate, by architecture, what processor, and where the kernel finds the serial line.
// Pointer authentication as the architecture defines it would take most of the time; kernels are content with another one.
var machines = map[string]struct {
	command []string
	cpu     string
	console string
}{
	testtarget.ARM64: {[]string{"qemu-system-aarch64", "-machine", "virt"}, "max,pauth-impdef=on", "ttyAMA0"},
	testtarget.AMD64: {[]string{"qemu-system-x86_64", "-machine", "pc"}, "max", "ttyS0"},
}

// emulate runs the machine, shows what it prints, and returns an error unless all went well in it.
func emulate(ctx context.Context, o options, kernel, initrd string) error {
	ctx, cancel := context.WithTimeout(ctx, o.whole)
	defer cancel()
	m := machines[o.arch]
	args := append(m.command[1:],
		"-cpu", m.cpu, "-smp", strconv.Itoa(o.cpus), "-m", o.memory, "-accel", "tcg,thread=multi",
		"-kernel", kernel, "-initrd", initrd, "-append", "console="+m.console+" loglevel=4 panic=-1",
		"-nographic", "-nic", "none", "-no-reboot")
	cmd := exec.CommandContext(ctx, m.command[0], args...)
	cmd.Stderr = os.Stderr
	serial, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	last := ""
	for lines := bufio.NewScanner(serial); lines.Scan(); {
		line := strings.TrimSuffix(lines.Text(), "\r")
		fmt.Println(line)
		if strings.HasPrefix(line, job.Passed) || strings.HasPrefix(line, job.Failed) {
			last = line
		}
	}
	err = errors.Join(cmd.Wait(), context.Cause(ctx))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", m.command[0], err)
	case !strings.HasPrefix(last, job.Passed):
		return errors.New("tests failed in the emulated machine, or it did")
	}
	return nil
}
