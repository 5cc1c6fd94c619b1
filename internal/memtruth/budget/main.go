// Command budget traces allocations for the tests of package memtruth. For each line that it reads, it makes 1000 objects of
// 64 bytes in a trace and prints what the trace counted: "BYTES OBJECTS", or the error.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/memtrace"
)

var kept [10]*[64]byte

func main() {
	if len(os.Args) > 1 && os.Args[1] == "mdwe" {
		if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var bytes, objects int64
		err := memtrace.Trace(context.Background(), func(ctx memtrace.Context) {
			for i := range 1000 {
				kept[i%len(kept)] = new([64]byte)
			}
			bytes, objects, _ = ctx.Used()
		})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(bytes, objects)
	}
}
