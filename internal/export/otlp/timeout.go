package otlp

import (
	"context"
	"math"
	"time"
)

// noLimit is a timeout without a limit, for which variables have 0.
const noLimit = time.Duration(math.MaxInt64)

// Within returns a context that ends after a time, if there is a limit.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == noLimit {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}
