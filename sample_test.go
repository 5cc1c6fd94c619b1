package loupe_test

import (
	"debug/elf"
	"fmt"
	"math"
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

// stackSamples counts sampled stacks of threads that run a goroutine or the runtime.
type stackSamples struct {
	all        int
	goroutines int // of goroutines other than the runtime's own, outside of observers
	observers  int // the thread executes a probe, or perf's own work when the thread gets a processor
}

// shares returns the least and the greatest share of the processor time that goroutines used, and the standard deviation of
// the greater one. The time of observers may count for goroutines or for the runtime: a probe reads the time of its event
// somewhere between its begin and its end, and perf starts a timer each time that a thread gets a processor, which takes
// 20 µs on some virtual machines, as long as everything else that the thread does between two waits.
func (s stackSamples) shares() (least, most, deviation float64) {
	least, most = float64(s.goroutines)/float64(s.all), float64(s.goroutines+s.observers)/float64(s.all)
	return least, most, math.Sqrt(4 * most * (1 - most) / float64(s.all)) // a sample depends on the one before
}

// sampleStacks has the kernel sample the stacks of a process until the result is called. A program's own CPU profile does
// not serve here: the kernel checks its timers only at clock ticks, which find the scheduler too seldom, since threads
// come and go between two ticks.
func sampleStacks(t *testing.T, pid int) func() stackSamples {
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
	awaitPerf(t, file)
	return func() (s stackSamples) {
		t.Helper()
		defer b.Close()
		if err := record.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = record.Wait() // it ends by the signal
		status, stacks, stderr := testcmd.Run(t, testcmd.Command(t, "perf", "script", "--input", file, "--fields", "ip,sym"))
		if status != 0 {
			t.Fatalf("perf script: status %d, %s", status, stderr)
		}
		for stack := range strings.SplitSeq(stacks, "\n\n") {
			root := goRoot(b, code, stack)
			if root == "" {
				continue // the thread begins or ends
			}
			s.all++
			switch {
			case strings.Contains(stack, " uprobe_"), strings.Contains(stack, "exc_int3"), strings.Contains(stack, " finish_task_switch"):
				s.observers++
			case !strings.HasPrefix(root, "runtime.") || root == "runtime.main":
				s.goroutines++
			}
		}
		return s
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

// goRoot returns the outermost Go function of a stack; empty if it has none. Each line of the stack has an address and a symbol;
// addresses of the executable are offsets in its file. The function goexit, at which the stack of each goroutine begins, does
// not count.
func goRoot(b *gobin.Binary, code elf.ProgHeader, stack string) (root string) {
	for line := range strings.Lines(stack) {
		address, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		offset, err := strconv.ParseUint(address, 16, 64)
		if err != nil || offset < code.Off || offset-code.Off >= code.Filesz {
			continue
		}
		if f, ok := b.FuncForPC(offset - code.Off + code.Vaddr); ok && !strings.HasPrefix(f.Name, "runtime.goexit") {
			root = f.Name
		}
	}
	return root
}

// awaitPerf waits until perf record samples: it has begun its file.
func awaitPerf(t *testing.T, file string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("perf does not begin")
		}
	}
}
