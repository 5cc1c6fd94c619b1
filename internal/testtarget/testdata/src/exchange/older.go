//go:build grpc1.14

package main

import "google.golang.org/grpc"

func withWorkers(uint32) grpc.ServerOption { panic("this version of gRPC has no workers") }
