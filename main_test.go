package loupe_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/loupe-go/loupe"
)

// engine is the engine that all tests use which are not about one of them. `make test` runs them with both.
var engine = flag.String("engine", string(loupe.EngineUprobe), "engine to test: uprobe or inline")

func TestMain(m *testing.M) {
	switch os.Getenv("LOUPE_EXAMPLE") {
	case "orders":
		takeOrders()
		return
	case "shop":
		runShop()
		return
	}
	if pid := os.Getenv(observedVariable); pid != "" {
		comeAndGo(pid)
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// attachTo is loupe.Attach with the engine to test, unless the options name one.
func attachTo(ctx context.Context, target loupe.Target, opt loupe.Options) (*loupe.Session, error) {
	if opt.Engine == "" {
		opt.Engine = loupe.Engine(*engine)
	}
	return loupe.Attach(ctx, target, opt)
}
