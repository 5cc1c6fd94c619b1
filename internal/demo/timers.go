package demo

import (
	"context"
	"sync"
	"time"
)

// runTimers starts the goroutines that the clock drives.
func runTimers(ctx context.Context, parts *sync.WaitGroup) {
	parts.Go(func() { heartbeat(ctx) })
	parts.Go(func() { expireCarts(ctx) })
}

// heartbeat wakes up at every tick.
func heartbeat(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// expireCarts sleeps between its rounds.
func expireCarts(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
}
