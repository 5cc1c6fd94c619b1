package loupe_test

import (
	"os"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestProcs looks at the P of each start: there are GOMAXPROCS, and each runs one goroutine at a time.
func TestProcs(t *testing.T) {
	const procs = 3
	for _, version := range testtarget.Versions() {
		t.Run("go"+version, func(t *testing.T) {
			cmd := testcmd.Within(t, 0, testtarget.Build(t, testtarget.Spec{Program: "mill", Go: version}))
			cmd.Env = append(os.Environ(), "GOMAXPROCS=3")
			p := testtarget.StartCmd(t, cmd)
			s := attach(t, p.PID(), loupe.Options{Kinds: event.KindsGoroutine.Union(event.KindsSyscall), System: true, Procs: true, StackDepth: -1})
			var starts, unknown, shared int
			used, on := map[int32]int{}, map[int32]uint64{} // starts, and the goroutine that has run since, by P
			at := map[uint64]int32{}                        // the P of a goroutine that has done nothing since its start
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ev := range s.Events() {
					if id, ok := at[ev.G]; ok && ev.Kind != event.GoUnblock && ev.Kind != event.GoCreate {
						delete(at, ev.G)
						delete(on, id)
					}
					if ev.Kind != event.GoStart {
						continue
					}
					starts++
					id, ok := ev.P.ID()
					if !ok {
						unknown++
						continue
					}
					used[id]++
					if g, ok := on[id]; ok {
						shared++
						delete(at, g)
					}
					on[id], at[ev.G] = ev.G, id
				}
			}()
			for _, line := range []string{"spawn 2000", "pingpong 500", "chans 300", "locks 20"} {
				p.Command(line)
			}
			s.Detach()
			<-done
			s.Close()
			t.Logf("%d starts by P: %v", starts, used)
			if starts < 100 || unknown > 0 || shared > 0 {
				t.Errorf("%d starts, %d without a P, %d on a P that runs another goroutine", starts, unknown, shared)
			}
			for id := range used {
				if id < 0 || id >= procs {
					t.Errorf("P %d: there are %d", id, procs)
				}
			}
		})
	}
}
