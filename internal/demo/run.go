package demo

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// readyLine is what the program writes when all its parts are at work.
const readyLine = "ready\n"

// Run runs the sample program until the context ends. It writes one line to ready once everything has started.
func Run(ctx context.Context, ready io.Writer) error {
	srv, err := listen()
	if err != nil {
		return fmt.Errorf("sample program: %w", err)
	}
	var parts sync.WaitGroup
	srv.run(ctx, &parts)
	runOrders(ctx, &parts)
	runBookkeepers(ctx, &parts)
	runTimers(ctx, &parts)
	parts.Go(func() { runSearches(ctx) })
	if _, err := io.WriteString(ready, readyLine); err != nil {
		return fmt.Errorf("sample program: %w", err)
	}
	parts.Wait()
	return nil
}
