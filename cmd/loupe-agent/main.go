// Command loupe-agent observes all Go processes of a machine, all the time. Run `loupe-agent --help`.
package main

import (
	"context"
	"os"

	"github.com/loupe-go/loupe/internal/agent"
	"github.com/loupe-go/loupe/internal/agent/command"
)

func main() {
	os.Exit(command.Main(command.Env{Args: os.Args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, run))
}

func run(ctx context.Context, s *command.Start) error {
	return agent.Start(ctx, s.Config, s.Stderr, s.Watch)
}
