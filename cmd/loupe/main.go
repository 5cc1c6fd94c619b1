// Command loupe shows what a running Go program is doing. `loupe --help` tells its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/loupe-go/loupe/internal/cli"
	"github.com/loupe-go/loupe/internal/footprint"
)

func main() {
	footprint.Limit()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	os.Exit(cli.Run(ctx, cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
	}))
}
