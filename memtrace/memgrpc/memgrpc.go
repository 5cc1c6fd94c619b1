// Package memgrpc gives the requests of a gRPC server budgets of memory. It is a module of its own, because it requires
// google.golang.org/grpc.
package memgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/loupe-go/loupe/memtrace"
)

// Usage is what a request allocated.
type Usage struct {
	Bytes, Objects, Calls int64

	// Limit is the limit that was passed, or nil.
	Limit *memtrace.LimitError
}

// Options configures [UnaryServerInterceptor] and [StreamServerInterceptor].
//
// The context of each request is a [memtrace.Context], and is done when the request passes a limit. Handlers should start
// goroutines by [memtrace.Go], or Limits should contain [memtrace.WithDescendants].
//
// If a request passes a limit and its handler then returns an error that says that the context was canceled, the client receives
// the status ResourceExhausted, with the text of the [memtrace.LimitError]. What a handler returns otherwise is not changed.
type Options struct {
	// Limits are the limits of each request: a call, or a stream with all its messages.
	Limits []memtrace.Option

	// Report is called after each request, if it is set, with the name of the method, such as "/grpc.health.v1.Health/Check". It
	// is also called if the handler panics.
	Report func(ctx context.Context, method string, used Usage)

	// Failed is called, if it is set, for each request that cannot be traced, with the error of [memtrace.Trace]. Such a
	// request is handled without a budget, or its counts are too low if the error wraps [memtrace.ErrIncomplete].
	Failed func(ctx context.Context, method string, err error)
}

// UnaryServerInterceptor returns an interceptor that traces each call. What the server allocates before and after the handler
// runs is not counted, such as the message of the request.
func UnaryServerInterceptor(o Options) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		err = o.trace(ctx, info.FullMethod, func(ctx context.Context) error {
			var err error
			resp, err = handler(ctx, req)
			return err
		})
		return resp, err
	}
}

// StreamServerInterceptor returns an interceptor that traces each stream. It counts the messages that the handler receives. When
// the stream has passed a limit, the handler can neither send nor receive: the error is the status ResourceExhausted.
// A handler that waits for a message is not woken.
func StreamServerInterceptor(o Options) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return o.trace(ss.Context(), info.FullMethod, func(ctx context.Context) error {
			return handler(srv, &stream{ss, ctx})
		})
	}
}

// trace calls f and returns its error, or the status for it.
func (o *Options) trace(ctx context.Context, method string, f func(ctx context.Context) error) (err error) {
	failed := memtrace.Trace(ctx, func(ctx memtrace.Context) {
		if o.Report != nil {
			defer func() { o.Report(ctx, method, usageOf(ctx)) }()
		}
		err = f(ctx)
		if canceled(err) {
			if passed := exhausted(ctx); passed != nil {
				err = passed
			}
		}
	}, o.Limits...)
	if failed == nil {
		return err
	}
	if o.Failed != nil {
		o.Failed(ctx, method, failed)
	}
	if !errors.Is(failed, memtrace.ErrIncomplete) {
		err = f(ctx)
	}
	return err
}

// canceled reports whether err says that a context was canceled.
func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled
}

// exhausted returns a status if the trace of a context has passed a limit, else nil.
func exhausted(ctx context.Context) error {
	var limit *memtrace.LimitError
	if errors.As(ctx.Err(), &limit) {
		return status.Error(codes.ResourceExhausted, limit.Error())
	}
	return nil
}

func usageOf(ctx memtrace.Context) Usage {
	var u Usage
	u.Bytes, u.Objects, u.Calls = ctx.Used()
	errors.As(ctx.Err(), &u.Limit)
	return u
}

// stream is the stream of a traced request.
type stream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *stream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *stream) SendMsg(m any) error {
	if err := exhausted(s.ctx); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// RecvMsg implements grpc.ServerStream.
func (s *stream) RecvMsg(m any) error {
	if err := exhausted(s.ctx); err != nil {
		return err
	}
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return exhausted(s.ctx) // the message may be large
}
