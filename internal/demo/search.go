package demo

import (
	"context"
	"time"
)

const searchInterval = 200 * time.Millisecond

// searchReplicas answer after different times; the first answer wins.
var searchReplicas = [...]time.Duration{5 * time.Millisecond, 9 * time.Millisecond, 14 * time.Millisecond}

// runSearches searches again and again, as customers would.
func runSearches(ctx context.Context) {
	tick := time.NewTicker(searchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			search("lamp")
		case <-ctx.Done():
			return
		}
	}
}

// search asks every replica and returns the first answer. This is the leak: nobody receives the other answers, and the
// channel has no room for them, so the goroutines of the slower replicas wait for ever. A buffer of len(searchReplicas)
// would mend it.
func search(query string) string {
	answers := make(chan string)
	for _, delay := range searchReplicas {
		go askReplica(query, delay, answers)
	}
	return <-answers
}

// askReplica answers a query after a while.
func askReplica(query string, delay time.Duration, answers chan<- string) {
	time.Sleep(delay)
	answers <- "a result for " + query
}
