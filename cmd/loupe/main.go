// Command loupe shows what a running Go program is doing. `loupe --help` tells its commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/internal/cli"
	"github.com/loupe-go/loupe/internal/footprint"
)

func main() {
	footprint.Limit()
	os.Exit(cli.Run(untilAsked(), cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
	}))
}

// untilAsked returns a context that is done when Loupe is asked to end, by Ctrl-C, by SIGTERM, or because the terminal is
// gone. To be asked again at the same time is nothing unusual: timeout(1) does so, and a person does who is impatient. It
// must not end what is under way, since code in a program that is observed has to be taken out of it. Whoever asks once
// more after grace does not want to wait for that.
func untilAsked() context.Context {
	const grace = 2 * time.Second
	ctx, end := context.WithCancel(context.Background())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signal.Notify(asked, syscall.SIGHUP)
	}
	go func() {
		<-asked
		end()
		time.Sleep(grace)
		signal.Stop(asked)
	}()
	return ctx
}
