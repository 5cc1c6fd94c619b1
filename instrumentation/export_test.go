package instrumentation

import "time"

// CloseWithin sets the deadline of Close.
func CloseWithin(d time.Duration) Option {
	return func(c *config) { c.closeTimeout = d }
}
