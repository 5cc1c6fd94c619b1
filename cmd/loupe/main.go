// Command loupe shows what a running Go program is doing. Run `loupe --help` for a list of its commands.
package main

import (
	"os"

	"github.com/loupe-go/loupe/internal/cli"
	"github.com/loupe-go/loupe/internal/footprint"
)

func main() {
	footprint.Command().Set()
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv,
	}))
}
