package loupe_test

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/internal/testtarget"
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
	case "web":
		runWebShop()
		return
	}
	if load := os.Getenv(loadVariable); load != "" {
		os.Exit(sendLoad(load))
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

// oneEngine leaves a test out with engine inline unless LOUPE_RELEASES chooses all releases: it takes long, and has run with uprobe.
func oneEngine(t *testing.T) {
	t.Helper()
	if *engine == string(loupe.EngineInline) {
		testtarget.Whole(t, "with engine inline")
	}
}
