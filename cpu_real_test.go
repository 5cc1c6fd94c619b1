package loupe_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/realtarget"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// serverSeconds is the length of the CPU profiles of servers.
const serverSeconds = 8

// TestCPURealPrograms compares CPU profiles of servers under load with those that the servers record of themselves.
func TestCPURealPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("CPU profiles need root")
	}
	testtarget.Whole(t, "CPU profiles of servers")
	for _, spec := range realtarget.Chosen(t) {
		t.Run(spec.Name, func(t *testing.T) {
			target := spec.Start(t)
			load := target.StartLoad()
			load.Await(t, 20)
			type result struct {
				prof *profile.Profile
				err  error
			}
			p, err := loupe.OpenProcess(target.PID(), loupe.ProcessOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			own := make(chan result, 1)
			go func() {
				r, err := http.Get(fmt.Sprintf("%s/profile?seconds=%d", target.Pprof(), serverSeconds))
				if err != nil {
					own <- result{nil, err}
					return
				}
				defer r.Body.Close()
				prof, err := profile.Parse(r.Body)
				own <- result{prof, err}
			}()
			ours, err := p.CPUProfile(t.Context(), loupe.CPUOptions{Duration: (serverSeconds - 1) * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			theirs := <-own
			if theirs.err != nil {
				t.Fatal(theirs.err)
			}
			if _, err := load.Stop(); err != nil {
				t.Errorf("a wrong answer while profiled: %v", err)
			}
			checkCPU(t, ours)
			z := compareShares(t, "flat", maxBurstyZ, sharesBy(ours.Profile, false, flat), sharesBy(theirs.prof, false, flat))
			z = max(z, compareShares(t, "cum", maxBurstyZ, sharesBy(ours.Profile, false, frames), sharesBy(theirs.prof, false, frames)))
			t.Logf("%s: %d samples of Loupe, %d of the runtime, largest z %.1f", spec.Name, ours.Samples, sharesBy(theirs.prof, false, flat).total, z)
		})
	}
}
