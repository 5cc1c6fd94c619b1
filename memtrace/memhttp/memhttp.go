// Package memhttp gives the requests of a [net/http] server budgets of memory.
package memhttp

import (
	"errors"
	"net/http"

	"github.com/loupe-go/loupe/memtrace"
)

// Usage is what a request allocated.
type Usage struct {
	Bytes, Objects, Calls int64

	// Limit is the limit that was passed, or nil.
	Limit *memtrace.LimitError
}

// Options configures [Handler].
type Options struct {
	// Limits are the limits of each request.
	Limits []memtrace.Option

	// Report is called after each request, if it is set. It is also called if the handler panics.
	Report func(r *http.Request, used Usage)

	// Failed is called, if it is set, for each request that cannot be traced, with the error of [memtrace.Trace]. Such a
	// request is handled without a budget, or its counts are too low if the error wraps [memtrace.ErrIncomplete].
	Failed func(r *http.Request, err error)
}

// Handler returns a handler that traces each request of next. The context of the request is a [memtrace.Context], and is done
// when the request passes a limit: next decides how to answer then, and should start goroutines by [memtrace.Go].
// What the server allocates before next is called, such as the headers of the request, is not counted.
func Handler(next http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := memtrace.Trace(r.Context(), func(ctx memtrace.Context) {
			if o.Report != nil {
				defer func() { o.Report(r, usageOf(ctx)) }()
			}
			next.ServeHTTP(w, r.WithContext(ctx))
		}, o.Limits...)
		if err == nil {
			return
		}
		if o.Failed != nil {
			o.Failed(r, err)
		}
		if !errors.Is(err, memtrace.ErrIncomplete) {
			next.ServeHTTP(w, r)
		}
	})
}

func usageOf(ctx memtrace.Context) Usage {
	var u Usage
	u.Bytes, u.Objects, u.Calls = ctx.Used()
	errors.As(ctx.Err(), &u.Limit)
	return u
}
