//go:build !go1.21

package main

import "context"

func withoutCancel(ctx context.Context) context.Context { return ctx }
