// Package own is only in the program.
package own

import "os"

func init() { os.Stderr.WriteString("own init\n") }
