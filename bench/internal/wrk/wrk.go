// Package wrk runs wrk, a load generator for HTTP servers, and reads its result.
package wrk

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// A Result is what wrk has measured.
type Result struct {
	Requests uint64
	Rate     float64 // requests per second
	P50, P99 time.Duration
}

// Command returns a command that sends requests to a URL on a number of connections.
func Command(url string, connections int, d time.Duration) *exec.Cmd {
	return exec.Command("wrk", "-t1", fmt.Sprintf("-c%d", connections), fmt.Sprintf("-d%.0fs", max(1, d.Seconds())), "--latency", url)
}

// Parse reads the output of a command. Requests that were not answered with success are an error.
func Parse(text string) (r Result, err error) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == "requests" {
			if _, err = fmt.Sscan(words[0], &r.Requests); err != nil {
				return r, fmt.Errorf("wrk: %w", err)
			}
		}
		if len(words) != 2 {
			continue
		}
		switch words[0] {
		case "50%":
			r.P50, err = time.ParseDuration(words[1])
		case "99%":
			r.P99, err = time.ParseDuration(words[1])
		case "Requests/sec:":
			_, err = fmt.Sscan(words[1], &r.Rate)
		}
		if err != nil {
			return r, fmt.Errorf("wrk: %w", err)
		}
	}
	if r.Rate == 0 || r.Requests == 0 || strings.Contains(text, "Non-2xx") || strings.Contains(text, "Socket errors") {
		return r, fmt.Errorf("wrk: not all requests were answered:\n%s", text)
	}
	return r, nil
}
