package main

import (
	"fmt"
	"os"
	"time"

	"github.com/loupe-go/loupe/internal/term"
)

func main() {
	r := newReport(os.Stdout)
	p := newProgress(os.Stderr, term.IsTerminal(os.Stderr), r)
	stop := p.start(time.Second)
	err := r.read(os.Stdin)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if !r.finish(os.Getenv("CI") == "true") {
		os.Exit(1)
	}
}
