package ptrace

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestFrozen stops processes whose cgroup is frozen, by the freezers of both versions of cgroups. The error says so, and once
// thawed the process goes on and can be stopped.
func TestFrozen(t *testing.T) {
	for _, freezer := range testtarget.Freezers(t) {
		t.Run(freezer.Root, func(t *testing.T) {
			target := startMixer(t, testtarget.Spec{}, 1)
			freezer.Add(t, target.PID())
			checkFrozen(t, target, func() { freezer.Freeze(t) }, func() { freezer.Thaw(t) })
		})
	}
}

func checkFrozen(t *testing.T, target *testtarget.Process, freeze, thaw func()) {
	t.Helper()
	for range 2 {
		freeze()
		err := Run(context.Background(), target.PID(), Options{One: true}, func(s *Stopped) error {
			_, err := s.Call(unix.SYS_GETTID)
			return err
		})
		thaw()
		if err == nil || !strings.Contains(err.Error(), "its cgroup is frozen") || strings.Contains(err.Error(), "\n") {
			t.Errorf("frozen: %v", err)
		}
		if still := (*StillError)(nil); !errors.As(err, &still) {
			t.Errorf("frozen: %v is no StillError", err)
		}
		checkSum(t, target)
	}
	s := mustStop(t, target.PID(), Options{})
	s.Release()
	checkSum(t, target)
	awaitUnmasked(t, target.PID())
}
