// Command plugged is the plugin that mixer loads: more work for it.
package main

// Work adds up the numbers to n, on a stack that grows, with a goroutine of its own.
func Work(n uint64) uint64 {
	c := make(chan uint64)
	go func() {
		c <- descend(n * 20)
		for i := uint64(1); i <= n; i++ {
			c <- i
		}
		close(c)
	}()
	sum := <-c
	for v := range c {
		sum += v
	}
	return sum
}

// descend returns 0 from a depth of n frames.
//
//go:noinline
func descend(n uint64) uint64 {
	var pad [32]uint64
	pad[n%32] = n
	if n == 0 {
		return 0
	}
	return descend(n-1) + pad[n%32] - n
}

func main() {}
