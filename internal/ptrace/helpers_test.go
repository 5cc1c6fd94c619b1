package ptrace

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	helpers["signals"] = countSignals
}

// countSignals counts the signals it gets. `await N` is answered when there were N, or after a while.
func countSignals([]string) {
	var got atomic.Int64
	c := make(chan os.Signal, 100)
	signal.Notify(c, unix.SIGUSR1)
	go func() {
		for range c {
			got.Add(1)
		}
	}()
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var n int64
		if _, err := fmt.Sscanf(in.Text(), "await %d", &n); err != nil {
			fmt.Println("error", err)
			continue
		}
		for begin := time.Now(); got.Load() < n && time.Since(begin) < time.Minute; {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(200 * time.Microsecond) // for one too many
		fmt.Println("got", got.Load())
	}
}
