package agent

import (
	"context"
	"os"
	"testing"

	"github.com/loupe-go/loupe/internal/agent/command"
)

// asAgent is set in the environment of this test executable when it runs as an agent.
const asAgent = "LOUPE_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) == "" {
		os.Exit(m.Run())
	}
	os.Exit(command.Main(command.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr},
		func(ctx context.Context, s *command.Start) error { return Start(ctx, s.Config, s.Stderr, s.Watch) }))
}
