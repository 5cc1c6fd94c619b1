// Command loupe shows what a running Go program is doing. `loupe --help` tells its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/loupe-go/loupe/internal/cli"
)

// gcPercent makes collections rare: the commands are short, and a collection takes time from the program looked at.
const gcPercent = 400

func main() {
	// Leave the program that is looked at at least half of the machine.
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()/2))
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	os.Exit(cli.Run(ctx, cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
	}))
}
