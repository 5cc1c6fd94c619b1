package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestAllocsLive counts the allocations of a real program, with the engine that the command chooses.
func TestAllocsLive(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "maker", Stripped: true}))
	testcmd.UntilSeen(t, 2*time.Second, func(d time.Duration) error { return checkAllocs(t, target, d) })
}

// checkAllocs counts the allocations of a program that makes rounds. It returns an error if there were too few of them.
func checkAllocs(t *testing.T, target *testtarget.Process, d time.Duration) error {
	t.Helper()
	done := make(chan result, 1)
	go func() {
		done <- run(t, machine{}, "allocs", strconv.Itoa(target.PID()), "--duration", d.String(), "--json", "-q")
	}()
	var r result
	for counting := true; counting; {
		select {
		case r = <-done:
			counting = false
		default:
			target.Command("round 5")
		}
	}
	var doc struct {
		Bytes, Objects, Calls, Lost                        uint64
		ByGoroutine, ByCreator, ByFunction, BySize, ByType []struct {
			Func, Type     string
			Bytes, Objects uint64
		}
	}
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone {
		t.Fatalf("status %d, %v: %s%s", r.status, err, r.out, r.errOut)
	}
	if doc.Objects < 100 {
		return fmt.Errorf("%d objects in %v", doc.Objects, d)
	}
	if doc.Lost > 0 || len(doc.ByGoroutine) == 0 || len(doc.ByCreator) == 0 || len(doc.BySize) == 0 {
		t.Errorf("%+v", doc)
	}
	nodes, large := uint64(0), uint64(0)
	for _, row := range doc.ByType {
		if row.Type == "main.node" {
			nodes = row.Objects
		}
	}
	for _, row := range doc.ByFunction {
		if row.Func == "main.makeLarge" {
			large = row.Objects
		}
	}
	// Each round makes ten nodes and three large objects. The command may begin and end within a round, and it reads the counters one
	// after the other, which takes a millisecond: some rounds of the thousands that a fast machine makes in a second.
	if rounds, others := nodes/10, large/3; rounds == 0 || rounds+rounds/100+1 < others || others+others/100+1 < rounds {
		t.Errorf("%d nodes and %d large objects", nodes, large)
	}
	return nil
}
