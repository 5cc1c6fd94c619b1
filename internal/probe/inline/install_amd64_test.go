package inline

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/codepatch"
	"github.com/loupe-go/loupe/internal/codepatch/insn"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestEnterAgain has a thread in the way of an installation at first: it goes on as soon as it can, and whatever comes of that,
// its removal leaves nothing.
func TestEnterAgain(t *testing.T) {
	clock, err := NewClock()
	if err != nil {
		t.Fatal(err)
	}
	program, err := NewProgram(Options{
		Arch: "amd64", Config: madeUpConfig(), Sets: madeUpSets(), Geometry: Geometry{Lanes: 4, Ring: 1 << 16, Listed: 1 << 12}, Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := testcmd.Within(t, 0, "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	spots := []spot{madeUpSpot(t, cmd.Process.Pid)}
	for _, test := range []struct {
		busy int
		err  error // that comes when no thread is in the way any more
	}{{0, nil}, {3, nil}, {3, errors.New("made up")}} {
		in := &installation{pid: cmd.Process.Pid, signalStacks: func() ([]ptrace.Interval, error) { return nil, nil }}
		if err := in.measure(program, spots); err != nil {
			t.Fatal(err)
		}
		tries := 0
		err := in.enter(program, func([]byte, uint64) error {
			if tries++; tries <= test.busy {
				return fmt.Errorf("try %d: %w", tries, ptrace.ErrBusy)
			}
			return test.err
		}, spots)
		if !errors.Is(err, test.err) || tries != test.busy+1 {
			t.Errorf("%d times busy, then %v: %d tries, %v", test.busy, test.err, tries, err)
		}
		if err := in.remove(); err != nil || in.sharedAt != 0 {
			t.Fatalf("something is left at %#x: %v", in.sharedAt, err)
		}
		if err := in.shared.Close(); err != nil {
			t.Error(err)
		}
	}
}

// madeUpSpot is a spot in a function that does nothing, which is where a process has code. Nothing is patched there.
func madeUpSpot(t *testing.T, pid int) spot {
	t.Helper()
	var maps []procmap.Mapping
	i := -1
	for begin := time.Now(); i < 0; time.Sleep(time.Millisecond) { // at first it is within execve
		var err error
		if maps, err = procmap.Read(pid); err != nil {
			t.Fatal(err)
		}
		i = slices.IndexFunc(maps, func(m procmap.Mapping) bool { return m.Exec() && m.Inode != 0 })
		if i < 0 && time.Since(begin) > time.Minute {
			t.Fatalf("process %d has no code", pid)
		}
	}
	const nop = 0x90
	site := insn.Site{PC: maps[i].Start, Kind: insn.SiteEntry, GReg: "R14"}
	d, err := codepatch.Plan(codepatch.Function{Arch: "amd64", Entry: site.PC, Code: bytes.Repeat([]byte{nop}, 64)}, site)
	if err != nil {
		t.Fatal(err)
	}
	return spot{probe: probe.Probe{ID: gopark}, site: probe.Site{Func: "made up", At: site}, d: d}
}
