package goproc_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

const tick = 10 * time.Millisecond // of utime and stime

// TestProcessorTime compares the processor time with utime and stime in /proc/PID/stat.
func TestProcessorTime(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	user, system := kernelTimes(t, target.PID())
	for ; user < 10*tick; user, system = kernelTimes(t, target.PID()) {
		target.Command("burn 200") // of elapsed time: on a busy machine it gets only a part of the processors
	}
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ownUser, ownSystem, err := p.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	if (ownUser-user).Abs() > 3*tick || (ownSystem-system).Abs() > 3*tick {
		t.Errorf("%v in user mode and %v in the kernel, want %v and %v", ownUser, ownSystem, user, system)
	}
}

// kernelTimes returns utime and stime of a process.
func kernelTimes(t *testing.T, pid int) (user, system time.Duration) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var ticks [2]int
	for i, field := range fields[11:13] {
		if ticks[i], err = strconv.Atoi(field); err != nil {
			t.Fatal(err)
		}
	}
	return time.Duration(ticks[0]) * tick, time.Duration(ticks[1]) * tick
}
