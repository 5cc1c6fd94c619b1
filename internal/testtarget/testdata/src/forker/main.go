// Forker starts one child process after the other. Its main memory makes that
// take a while: the thread that does it is stopped in the middle of a fork more
// often than not.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

const ballast = 64 << 20

func main() {
	go fork(make([]byte, ballast))
	serve(false, nil)
}

func fork(memory []byte) {
	for i := range memory {
		memory[i] = 1
	}
	for {
		if err := exec.Command("/bin/true").Run(); err != nil {
			fmt.Fprintln(os.Stderr, "forker:", err)
			os.Exit(1)
		}
	}
}
