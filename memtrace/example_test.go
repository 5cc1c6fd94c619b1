package memtrace_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/loupe-go/loupe/memtrace"
)

var kept []*[64]byte

// This example stops when it has allocated more than 4 KiB.
func ExampleTrace() {
	err := memtrace.Trace(context.Background(), func(ctx memtrace.Context) {
		kept = make([]*[64]byte, 100)
		n := 0
		for ; ctx.Err() == nil; n++ {
			kept[n] = new([64]byte)
		}
		fmt.Println(n, "objects")
		fmt.Println(ctx.Err(), errors.Is(ctx.Err(), memtrace.ErrLimitBytes))
	}, memtrace.WithLimitBytes(4*memtrace.KiB))
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 51 objects
	// memtrace: the limit of 4096 bytes was passed true
}
