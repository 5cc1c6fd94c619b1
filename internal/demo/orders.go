package demo

import (
	"context"
	"crypto/sha256"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

const (
	orderWorkers  = 8
	orderInterval = 20 * time.Millisecond
	parcelBytes   = 128 << 10 // enough garbage to keep the collector at work about once a second
)

// order is one customer's order on its way through the shop.
type order struct {
	number   int
	customer string
	receipt  [sha256.Size]byte
}

// runOrders starts the order pipeline: a counter that takes orders, workers that pack them, and a ramp that ships them.
func runOrders(ctx context.Context, parts *sync.WaitGroup) {
	taken, packed := make(chan order), make(chan order)
	parts.Go(func() { takeOrders(ctx, taken) })
	var packers sync.WaitGroup
	for n := range orderWorkers {
		packers.Go(func() {
			pprof.Do(ctx, pprof.Labels("worker", strconv.Itoa(n)), func(context.Context) { packOrders(taken, packed) })
		})
	}
	parts.Go(func() { closeAfter(&packers, packed) })
	parts.Go(func() { shipOrders(packed) })
}

// takeOrders sends an order to the packers at every tick.
func takeOrders(ctx context.Context, taken chan<- order) {
	defer close(taken)
	customers := []string{"ada", "grace", "edsger", "barbara"}
	tick := time.NewTicker(orderInterval)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		taken <- order{number: n, customer: customers[n%len(customers)]}
	}
}

// packOrders is one worker.
func packOrders(taken <-chan order, packed chan<- order) {
	for o := range taken {
		parcel := make([]byte, parcelBytes)
		copy(parcel, o.customer)
		o.receipt = sha256.Sum256(parcel)
		packed <- o
	}
}

// closeAfter closes the channel of packed orders when all packers have gone home.
func closeAfter(packers *sync.WaitGroup, packed chan<- order) {
	packers.Wait()
	close(packed)
}

// shipOrders ends the pipeline.
func shipOrders(packed <-chan order) map[string]int {
	shipped := map[string]int{}
	for o := range packed {
		shipped[o.customer]++
	}
	return shipped
}
