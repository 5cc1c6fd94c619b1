package loupe_test

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// sampleRate is how many stacks are sampled in a second of processor time.
const sampleRate = 1999

// sampleStacks has the kernel sample the stacks of a process until the result is called. That returns the number of
// samples whose goroutine, if any, is known, and how many of these are of goroutines other than the runtime's own. A
// program's own CPU profile is no measure for that: its timers of processor time are looked at with the clock's ticks only,
// which finds the scheduler, where threads come and go between two ticks, too seldom.
func sampleStacks(t *testing.T, pid int) func() (goroutines, all int) {
	t.Helper()
	b, err := gobin.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	code := codeSegment(t, b)
	file := filepath.Join(t.TempDir(), "perf.data")
	record := testcmd.Command(t, "perf", "record", "--quiet", "--event", "cpu-clock", "--freq", strconv.Itoa(sampleRate), "-g",
		"--pid", strconv.Itoa(pid), "--output", file)
	if err := record.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("perf does not begin")
		}
	}
	return func() (goroutines, all int) {
		t.Helper()
		defer b.Close()
		if err := record.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = record.Wait() // it ends by the signal
		status, stacks, stderr := testcmd.Run(t, testcmd.Command(t, "perf", "script", "--input", file, "--fields", "ip"))
		if status != 0 {
			t.Fatalf("perf script: status %d, %s", status, stderr)
		}
		for stack := range strings.SplitSeq(stacks, "\n\n") {
			root := goRoot(b, code, stack)
			if root == "" {
				continue // the thread begins or ends
			}
			all++
			if !strings.HasPrefix(root, "runtime.") || root == "runtime.main" {
				goroutines++
			}
		}
		return goroutines, all
	}
}

// codeSegment returns the segment of an executable that holds its code.
func codeSegment(t *testing.T, b *gobin.Binary) elf.ProgHeader {
	t.Helper()
	f, err := elf.NewFile(b.File())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			return p.ProgHeader
		}
	}
	t.Fatal("the executable has no code")
	return elf.ProgHeader{}
}

// goRoot returns the outermost Go function of a stack; empty if it has none. The stack has an address a line, those of the
// executable as offsets in its file. Every goroutine's stack begins with goexit, which says nothing.
func goRoot(b *gobin.Binary, code elf.ProgHeader, stack string) (root string) {
	for line := range strings.Lines(stack) {
		offset, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
		if err != nil || offset < code.Off || offset-code.Off >= code.Filesz {
			continue
		}
		if f, ok := b.FuncForPC(offset - code.Off + code.Vaddr); ok && !strings.HasPrefix(f.Name, "runtime.goexit") {
			root = f.Name
		}
	}
	return root
}
