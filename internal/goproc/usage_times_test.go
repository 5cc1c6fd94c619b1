package goproc_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProcessorTime compares the processor time with utime and stime in /proc/PID/stat, which are in ticks of 10 ms.
func TestProcessorTime(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
	target.Command("burn 200")
	p, err := goproc.Open(target.PID(), goproc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	user, system, err := p.ProcessorTime()
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", target.PID()))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var utime, stime time.Duration
	fmt.Sscan(fields[11], &utime)
	fmt.Sscan(fields[12], &stime)
	const tick = 10 * time.Millisecond
	if (user-utime*tick).Abs() > 3*tick || (system-stime*tick).Abs() > 3*tick || user < 100*time.Millisecond {
		t.Errorf("%v in user mode and %v in the kernel, want %v and %v", user, system, utime*tick, stime*tick)
	}
}
