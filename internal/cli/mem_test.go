package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loupe-go/loupe"
)

func TestMem(t *testing.T) {
	r := run(t, newFake(), "mem", "app")
	if r.status != exitDone || !strings.HasPrefix(r.out, "RSS 3.0 MiB; the Go heap explains 2.0 MiB") {
		t.Errorf("status %d, %q", r.status, r.out)
	}
	var doc struct {
		Heap    struct{ TotalAlloc int }
		Process struct{ Parts *struct{ GoHeap int } }
	}
	r = run(t, newFake(), "mem", "app", "--json")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || doc.Heap.TotalAlloc != 1<<20 || doc.Process.Parts == nil || doc.Process.Parts.GoHeap != 2<<20 {
		t.Errorf("%v in %s", err, r.out)
	}
}

// TestMemInterval prints lines until the process exits.
func TestMemInterval(t *testing.T) {
	fake := newFake()
	fake.exits = 4
	r := run(t, fake, "mem", "app", "--interval", "10ms")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.status != exitDone || len(lines) != 4 || !strings.HasPrefix(lines[0], "TIME") || !strings.Contains(lines[2], "1.0 MiB") || !strings.Contains(r.errOut, "process 42 has exited") {
		t.Errorf("status %d, %q, %q", r.status, r.out, r.errOut)
	}
	fake = newFake()
	fake.exits = 4
	r = run(t, fake, "mem", "app", "--interval", "10ms", "--json")
	lines = strings.Split(strings.TrimSpace(r.out), "\n")
	if r.status != exitDone || len(lines) != 3 || strings.Contains(lines[0], "rates") || !strings.Contains(lines[2], `"allocBytesPerSecond":1048576`) {
		t.Errorf("status %d, %q", r.status, r.out)
	}
	if r = run(t, newFake(), "mem", "app", "--interval", "10ms", "--duration", "60ms"); r.status != exitDone {
		t.Errorf("status %d, %q", r.status, r.errOut)
	}
}

func TestMemErrors(t *testing.T) {
	for _, args := range [][]string{{"--interval", "-1s"}, {"--interval", "1ms"}, {"--duration", "1s"}, {"--interval", "1s", "--duration", "-1s"}, {"--sizes", "-1"}} {
		if r := run(t, newFake(), append([]string{"mem", "app"}, args...)...); r.status != exitUsage || r.out != "" {
			t.Errorf("%q: status %d, %q", args, r.status, r.out)
		}
	}
	fake := newFake()
	fake.memErr = fmt.Errorf("process 42: %w", loupe.ErrLayout)
	if r := run(t, fake, "mem", "app"); r.status != exitUnobservable || r.out != "" || !strings.Contains(r.errOut, "cannot read memory statistics") {
		t.Errorf("status %d, %q, %q", r.status, r.out, r.errOut)
	}
	fake = newFake()
	fake.exits = 1
	if r := run(t, fake, "mem", "app", "--interval", "1s"); r.status != exitUnobservable {
		t.Errorf("status %d, %q, %q", r.status, r.out, r.errOut)
	}
}
