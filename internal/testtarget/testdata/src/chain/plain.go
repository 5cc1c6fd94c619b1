//go:build !sdk

package main

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
)

func instrument() func(context.Context) error { return func(context.Context) error { return nil } }

func inner(ctx context.Context, _ string) (context.Context, func()) { return ctx, func() {} }

func outgoing(_, _, _ string, send func(context.Context)) { send(context.Background()) }

func wrapTransport(t http.RoundTripper) http.RoundTripper { return t }

func wrapHandler(h http.Handler) http.Handler { return h }

func serverOptions() []grpc.ServerOption { return nil }

func clientOptions() []grpc.DialOption { return nil }
