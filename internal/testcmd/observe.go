package testcmd

import (
	"testing"
	"time"
)

// UntilSeen calls see with the time to observe something, until see has seen enough. On a machine that stalls little happens in a
// short time, so the time doubles after each error, up to 20 seconds or a little more. Then the error fails the test.
func UntilSeen(tb testing.TB, first time.Duration, see func(d time.Duration) error) {
	tb.Helper()
	const longest = 20 * time.Second
	for d := first; ; d *= 2 {
		err := see(d)
		if err != nil && d >= longest {
			tb.Error(err)
		}
		if err == nil || d >= longest {
			return
		}
	}
}
