package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// NotifySystemd reports to systemd that the agent has started, and that it is stopping when the context ends. If the unit has
// WatchdogSec, it also reports that the agent works, as long as alive returns nil; systemd restarts the agent when the reports stay out. It
// returns when the context ends, or at once if systemd has not started the process as a unit of type notify.
func NotifySystemd(ctx context.Context, alive func() error) error {
	sent, err := daemon.SdNotify(false, daemon.SdNotifyReady)
	if err != nil {
		return fmt.Errorf("cannot notify systemd: %w", oneLine(err))
	}
	if !sent {
		return nil
	}
	defer daemon.SdNotify(false, daemon.SdNotifyStopping)
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return fmt.Errorf("cannot notify systemd's watchdog: %w", oneLine(err))
	}
	if interval <= 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(max(interval/2, time.Millisecond))
	defer tick.Stop()
	for {
		if alive == nil || alive() == nil {
			if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
				return fmt.Errorf("cannot notify systemd's watchdog: %w", oneLine(err))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
