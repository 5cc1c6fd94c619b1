//go:build go1.25

package memtrace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestBubble passes a limit in a bubble of testing/synctest, before and after traces elsewhere have started the goroutine that
// cancels contexts. That goroutine must neither belong to the bubble, which would not end, nor close a channel of it, which is a
// fatal error.
func TestBubble(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			mustTrace(t, t.Context(), func(ctx Context) {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					<-derived.Done()
					ended <- context.Cause(derived)
				}()
				sinkB = make([]byte, 1<<20)
				time.Sleep(time.Hour) // no goroutine outside the bubble cancels the context meanwhile
				if err := ctx.Err(); !errors.Is(err, ErrLimitBytes) {
					t.Errorf("in a bubble, Err is %v", err)
				}
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, ErrLimitBytes) {
						t.Errorf("in a bubble, the cause is %v", err)
					}
				default:
					t.Error("in a bubble, a derived context is not canceled")
				}
			}, WithLimitBytes(1000))
			if d := time.Since(began); d != time.Hour {
				t.Errorf("%v have passed in the bubble", d)
			}
		})
		// Elsewhere the context is canceled without being asked.
		mustTrace(t, t.Context(), func(ctx Context) {
			done := ctx.Done()
			sinkB = make([]byte, 1<<20)
			<-done
		}, WithLimitBytes(1000))
	}
}

func mustTrace(t *testing.T, ctx context.Context, f func(Context), options ...Option) {
	t.Helper()
	if err := Trace(ctx, f, options...); err != nil {
		t.Fatal(err)
	}
}
