// Command plain is a program without cgo. It prints its arguments, and if the first one is "child", runs itself.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	fmt.Fprintf(os.Stderr, "main %q\n", os.Args[1:])
	if len(os.Args) > 1 && os.Args[1] == "child" {
		exe, err := os.Executable()
		if err != nil {
			panic(err)
		}
		cmd := exec.Command(exe, "of")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			panic(err)
		}
	}
}
