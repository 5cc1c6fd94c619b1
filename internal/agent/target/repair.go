package target

import "github.com/loupe-go/loupe"

// repair removes what engine inline has left in the process if an agent was killed that observed it. It must not be called while the
// target has a session.
func (t *Target) repair() {
	places, found, err := loupe.Repair(t.opt.PID, loupe.ProcessOptions{Log: t.log})
	switch {
	case isGone(err):
	case err != nil:
		t.log.Warn("cannot remove what an earlier observation has left in the process", "pid", t.opt.PID, "err", err)
	case found:
		t.log.Info("removed what an earlier observation had left in the process", "pid", t.opt.PID, "places", places)
	}
}
