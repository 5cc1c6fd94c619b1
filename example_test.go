package loupe_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
)

// This example prints the waits of at least a millisecond in a process that is already running.
func ExampleAttach() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s, err := loupe.Attach(ctx, loupe.PID(os.Getppid()), loupe.Options{MinBlock: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for ev := range s.Events() {
		if ev.Kind == event.GoBlock && ev.Stack != nil && len(ev.Stack.Frames) > 0 {
			fmt.Println(ev.G, "waited", time.Duration(ev.Value), ev.Reason, "in", ev.Stack.Frames[0].Func)
		}
	}
	if err := s.Err(); err != nil {
		log.Print(err)
	}
	if lost := s.Stats().Lost; lost > 0 {
		log.Print(lost, " events were lost")
	}
}

// This example starts a program and observes it from its first goroutine on.
func ExampleCommand() {
	s, err := loupe.Attach(context.Background(), loupe.Command(orders()), loupe.Options{
		Kinds: event.KindsOf(event.GoCreate),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	for ev := range s.Events() {
		if strings.HasSuffix(ev.Origin.CreatedBy.Func, ".takeOrders") {
			fmt.Println("an order is taken")
		}
	}
	status, _ := s.ExitStatus()
	fmt.Println("exit status", status)
	// Output:
	// an order is taken
	// an order is taken
	// an order is taken
	// exit status 0
}

// orders is the program of the example: this one, told to take orders.
func orders() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOUPE_EXAMPLE=orders")
	return cmd
}

func takeOrders() {
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go func() { wg.Done() }()
	}
	wg.Wait()
}
