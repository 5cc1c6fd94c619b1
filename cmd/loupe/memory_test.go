package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestMemoryOfManyGoroutines traces a program with many goroutines: what Loupe keeps of each is small, and so is the garbage
// on the way.
func TestMemoryOfManyGoroutines(t *testing.T) {
	const n, mostMiB = 200_000, 220
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "flood"}), fmt.Sprint(n), "0")
	for _, engine := range []string{"uprobe", "inline"} {
		cmd := testcmd.Command(t, loupe, "trace", "--engine", engine, "--duration", "500ms", fmt.Sprint(target.PID()))
		status, out, errOut := testcmd.Run(t, cmd)
		if found := strings.Count(out, "  GoStatus  "); status != 0 || found < n {
			t.Fatalf("%s: status %d, %d goroutines, %s", engine, status, found, errOut)
		}
		if peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10; peak > mostMiB {
			t.Errorf("%s: loupe took %d MiB, at most %d are expected", engine, peak, mostMiB)
		} else {
			t.Logf("%s: %d MiB", engine, peak)
		}
	}
}
