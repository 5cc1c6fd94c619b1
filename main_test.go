package loupe_test

import (
	"flag"
	"os"
	"testing"

	"github.com/loupe-go/loupe"
)

// engine is the engine that all tests use which are not about one of them. `make test` runs them with both.
var engine = flag.String("engine", string(loupe.EngineUprobe), "engine to test: uprobe or inline")

func TestMain(m *testing.M) {
	if os.Getenv("LOUPE_EXAMPLE") == "orders" {
		takeOrders()
		return
	}
	if pid := os.Getenv(observedVariable); pid != "" {
		comeAndGo(pid)
		return
	}
	flag.Parse()
	loupe.SetUnnamedEngine(loupe.Engine(*engine))
	os.Exit(m.Run())
}
