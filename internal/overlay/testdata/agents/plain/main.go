// Command plain is a program without cgo.
package main

import "os"

func main() { os.Stderr.WriteString("main\n") }
