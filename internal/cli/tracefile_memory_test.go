package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace/raw"
)

// hostile are traces that take far more memory than their size where each of something is kept. Each makes pieces of a
// trace until it has enough bytes.
var hostile = []struct {
	name    string
	version raw.Version
	sparse  bool // zeros follow, gigabytes of them
	begin   []raw.Event
	next    func(n uint64) raw.Event
	end     []raw.Event
}{
	{name: "old events", version: raw.Go121, begin: oldBegin, end: oldEnd,
		next: func(uint64) raw.Event { return raw.Event{Type: raw.EvV1HeapAlloc, Args: []uint64{1, 5}} }},
	{name: "old goroutines", version: raw.Go119, begin: oldBegin, end: oldEnd, next: func(n uint64) raw.Event {
		if n%2 == 0 {
			return raw.Event{Type: raw.EvV1GoCreate, Args: []uint64{1, 10 + n, 0, 0}}
		}
		return raw.Event{Type: raw.EvV1HeapAlloc, Args: []uint64{1, 5}}
	}},
	{name: "old goroutines in a row", version: raw.Go119, begin: oldBegin, end: oldEnd,
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvV1GoCreate, Args: []uint64{1, 10 + n, 0, 0}} }},
	{name: "old Ps", version: raw.Go111, begin: oldBegin, end: oldEnd,
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvV1Batch, Args: []uint64{1 + n, 1 + n}} }},
	{name: "old strings", version: raw.Go111, begin: oldBegin, end: oldEnd,
		next: func(n uint64) raw.Event {
			return raw.Event{Type: raw.EvV1String, Args: []uint64{10 + n}, Data: []byte("x")}
		}},
	{name: "old messages", version: raw.Go111, begin: oldBegin, end: oldEnd, next: func(n uint64) raw.Event {
		return raw.Event{Type: raw.EvV1UserLog, Args: []uint64{1, 1, 0, 0}, Data: fmt.Append(nil, n)}
	}},
	{name: "old stacks", version: raw.Go121, begin: oldBegin, end: oldEnd, next: func(n uint64) raw.Event {
		frame := func(i uint64) raw.Frame { return raw.Frame{PC: 3*n + i} }
		return raw.Event{Type: raw.EvV1Stack, Args: []uint64{1 + n, 3}, Frames: []raw.Frame{frame(1), frame(2), frame(3)}}
	}},
	{name: "old samples", version: raw.Go121, begin: oldBegin, end: oldEnd, next: func(n uint64) raw.Event {
		return raw.Event{Type: raw.EvV1CPUSample, Args: []uint64{1, 20, 0, 5, 0}}
	}},
	{name: "old sparse", version: raw.Go121, begin: oldBegin, sparse: true},
	{name: "sparse", version: raw.Go122, begin: batchOf(raw.EvCPUSamples), sparse: true},
	{name: "strings", version: raw.Go122, begin: batchOf(raw.EvStrings),
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvString, Args: []uint64{1 + n}} }},
	{name: "stacks", version: raw.Go125, begin: batchOf(raw.EvStacks),
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvStack, Args: []uint64{1 + n, 0}} }},
	{name: "program counters", version: raw.Go126, begin: batchOf(raw.EvStacks), next: func(n uint64) raw.Event {
		return raw.Event{Type: raw.EvStack, Args: []uint64{1, 1}, Frames: []raw.Frame{{PC: 1 + n}}}
	}},
	{name: "samples", version: raw.Go123, begin: batchOf(raw.EvCPUSamples),
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvCPUSample, Args: []uint64{1, 2, 3, 4, 0}} }},
	{name: "threads", version: raw.Go123, next: func(n uint64) raw.Event {
		if n%2 == 0 {
			return raw.Event{Type: raw.EvEventBatch, Args: []uint64{1, n, 5, 0}}
		}
		return raw.Event{Type: raw.EvProcStop, Args: []uint64{1}}
	}},
	{name: "goroutines", version: raw.Go123, begin: batchOf(0), end: newEnd,
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvGoStatus, Args: []uint64{1, 1 + n, 1, 4}} }},
	{name: "Ps", version: raw.Go123, begin: batchOf(0), end: newEnd,
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvProcStatus, Args: []uint64{1, 1 + n, 2}} }},
	{name: "events", version: raw.Go122, begin: batchOf(0), end: newEnd,
		next: func(n uint64) raw.Event { return raw.Event{Type: raw.EvGCSweepActive, Args: []uint64{1, 0}} }},
}

// oldBegin has what the events of a trace of before Go 1.22 need, oldEnd its end.
var (
	oldBegin = []raw.Event{
		{Type: raw.EvV1Batch, Args: []uint64{0, 10}},
		{Type: raw.EvV1String, Args: []uint64{1}, Data: []byte("main.f")},
		{Type: raw.EvV1GoCreate, Args: []uint64{1, 5, 0, 0}},
		{Type: raw.EvV1Gomaxprocs, Args: []uint64{1, 1, 0}},
		{Type: raw.EvV1ProcStart, Args: []uint64{1, 3}},
		{Type: raw.EvV1GoStart, Args: []uint64{1, 5, 1}},
	}
	oldEnd = []raw.Event{{Type: raw.EvV1Frequency, Args: []uint64{1e9}}}
)

// newEnd has what a generation needs besides its events.
var newEnd = []raw.Event{
	{Type: raw.EvEventBatch, Args: []uint64{1, 1<<64 - 1, 5, 0}},
	{Type: raw.EvFrequency, Args: []uint64{1e9}},
}

// batchOf returns the begin of a batch of something; of a thread for 0.
func batchOf(t raw.Type) []raw.Event {
	if t == 0 {
		return []raw.Event{{Type: raw.EvEventBatch, Args: []uint64{1, 5, 5, 0}}}
	}
	return []raw.Event{{Type: raw.EvEventBatch, Args: []uint64{1, 1<<64 - 1, 5, 0}}, {Type: t}}
}

// hostileSize is how large the traces are.
const hostileSize = 6 << 20

// writeHostile writes one of the traces. A batch ends where it is full.
func writeHostile(t *testing.T, path string, i int) {
	t.Helper()
	h := &hostile[i]
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	w, err := raw.NewWriter(out, h.version)
	if err != nil {
		t.Fatal(err)
	}
	w.RecomputeSizes = true
	write := func(events ...raw.Event) {
		for i := range events {
			events[i].Version = h.version
			if err := w.WriteEvent(&events[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(h.begin...)
	const event = 6 // bytes, about
	for n := range uint64(hostileSize / event) {
		if h.sparse {
			break
		}
		if n%4000 == 3999 && !h.version.V1() {
			write(h.begin...)
		}
		write(h.next(n))
	}
	write(h.end...)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if h.sparse {
		if err := f.Truncate(2 << 30); err != nil {
			t.Fatal(err)
		}
	}
}

// memoryVerbs are the verbs that are given hostile traces.
func memoryVerbs(file, out string) [][]string {
	return [][]string{
		{"stat", file},
		{"validate", file, "--limit", "0"},
		{"text", file, "-o", "/dev/null"},
		{"convert", file, "-o", out, "--format", "perfetto"},
		{"convert", file, "-o", out, "--format", "go", "--partial"},
		{"filter", file, "-o", out, "--from", "1us"},
		{"merge", file, file, "-o", out, "--format", "chrome"},
		{"merge", file, file, "-o", out, "--format", "go", "--partial"},
	}
}

// TestTracefileMemory gives hostile traces to all verbs: each ends by itself, with an error of one line or none, and takes
// no more memory than it may and what a process has anyway.
func TestTracefileMemory(t *testing.T) {
	const allowed, own = 32 << 20, 96 << 20
	indexes := make([]int, len(hostile))
	for i := range indexes {
		indexes[i] = i
	}
	for _, i := range testtarget.Some(t, indexes, 3) {
		t.Run(hostile[i].name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "hostile.trace")
			writeHostile(t, file, i)
			for n, args := range memoryVerbs(file, filepath.Join(dir, "out")) {
				if n > 1 && n%3 != i%3 {
					continue // the other verbs read traces in the same ways
				}
				if hostile[i].sparse && args[0] == "validate" {
					continue // which looks for what may follow, in all of them
				}
				took, errOut := runBounded(t, append(args, "--max-memory", fmt.Sprint(allowed))...)
				if took > allowed+own {
					t.Errorf("%v took %d MiB", args, took>>20)
				}
				if strings.Count(errOut, "\n") > 3 || strings.Contains(errOut, "goroutine 1 [") {
					t.Errorf("%v: %.300s", args, errOut)
				}
			}
		})
	}
}

// runBounded runs a verb in a process of its own, and returns the most memory that it took and what it wrote to stderr.
func runBounded(t *testing.T, args ...string) (took int64, errOut string) {
	t.Helper()
	cmd := testcmd.Command(t, os.Args[0], append([]string{"tracefile"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	peak, err := os.CreateTemp(t.TempDir(), "peak")
	if err != nil {
		t.Fatal(err)
	}
	defer peak.Close()
	cmd.ExtraFiles = []*os.File{peak}
	cmd.Env = append(cmd.Environ(), peakVariable+"=1")
	err = cmd.Run()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() || status.ExitStatus() > 1 {
		t.Errorf("%v: %v\n%.2000s", args, err, stderr.String())
	}
	if _, err := peak.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanf(peak, "VmHWM: %d kB", &took); err != nil {
		t.Fatalf("%v: no peak of memory: %v", args, err)
	}
	return took << 10, stderr.String()
}

// peakVariable is set in the environment of a process that is to write the most memory that it had in use to file
// descriptor 3. The kernel's resource usage of a child says what this test process had when it started the child, if that
// is more.
const peakVariable = "LOUPE_TEST_PEAK"

func writePeak() {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM:") {
			os.NewFile(3, "peak").WriteString(line)
		}
	}
}

// TestTracefileTextMemory gives a text trace whose second line never ends to the verb that reads text.
func TestTracefileTextMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace.txt")
	if err := os.WriteFile(file, []byte("Trace Go1.22\nGoStart "), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 2<<30); err != nil {
		t.Fatal(err)
	}
	took, errOut := runBounded(t, "wire", file, "-o", "/dev/null", "--max-memory", "128MiB")
	if took > 192<<20 || !strings.Contains(errOut, "line 2: line exceeds") {
		t.Errorf("%d MiB, %q", took>>20, errOut)
	}
}
