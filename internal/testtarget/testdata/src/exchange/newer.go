//go:build !grpc1.14

package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
)

func withWorkers(n uint32) grpc.ServerOption { return grpc.NumStreamWorkers(n) }

// never is a resolver that never knows an address.
type never struct{}

func init() { resolver.Register(never{}) }

func (never) Scheme() string { return "never" }

func (n never) Build(resolver.Target, resolver.ClientConn, resolver.BuildOptions) (resolver.Resolver, error) {
	return n, nil
}

func (never) ResolveNow(resolver.ResolveNowOptions) {}

func (never) Close() {}
