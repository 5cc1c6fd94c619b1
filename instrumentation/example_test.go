package instrumentation_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/loupe-go/loupe/instrumentation"
	"github.com/loupe-go/loupe/spans"
)

// This example prints the requests of a service until it is interrupted. The service can be started and restarted at any time.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	i, err := instrumentation.New(ctx,
		instrumentation.WithExe("/usr/local/bin/orders"),
		instrumentation.WithLogger(slog.Default()),
		instrumentation.WithHandler(func(s *spans.Span) {
			fmt.Println(s.Kind, s.Name, time.Duration(s.End-s.Start))
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer i.Close()
	if err := i.Load(ctx); err != nil {
		log.Fatal(err)
	}
	if err := i.Run(ctx); err != nil {
		log.Fatal(err)
	}
	log.Print(i.Stats().Spans.Notes.Lost, " reports lost")
}

// This example exports the spans and metrics of a process as the OTEL_* environment variables say, for example
// OTEL_EXPORTER_OTLP_ENDPOINT.
func ExampleWithEnv() {
	ctx := context.Background()
	i, err := instrumentation.New(ctx, instrumentation.WithEnv(), instrumentation.WithPID(1234), instrumentation.WithServiceName("orders"))
	if err != nil {
		log.Fatal(err)
	}
	if err := i.Load(ctx); err != nil { // wraps loupe.ErrNoProcess if there is no process 1234
		log.Fatal(err)
	}
	if err := i.Run(ctx); err != nil { // until the process ends
		log.Fatal(err)
	}
	if err := i.Close(); err != nil { // exports the last spans
		log.Fatal(err)
	}
}
