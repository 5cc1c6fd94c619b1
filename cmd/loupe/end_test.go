package main

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// TestEnd asks Loupe to end while it observes, once and, as timeout(1) does and people do, several times within moments. It
// ends as it should: with a summary, and with nothing left in the program.
func TestEnd(t *testing.T) {
	sample := strconv.Itoa(startSample(t))
	for _, test := range []struct {
		name   string
		signal syscall.Signal
		times  int
	}{{"Ctrl-C", syscall.SIGINT, 1}, {"terminal gone", syscall.SIGHUP, 1}, {"several times", syscall.SIGTERM, 30}} {
		for _, engine := range []string{"uprobe", "inline"} {
			t.Run(test.name+"/"+engine, func(t *testing.T) {
				cmd := testcmd.Command(t, loupe, "trace", "--engine", engine, sample)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				out := bufio.NewReader(stdout)
				if _, err := out.ReadString('\n'); err != nil {
					cmd.Wait()
					t.Fatalf("%v, stderr %q", err, stderr.String())
				}
				go func() {
					for range test.times {
						cmd.Process.Signal(test.signal) // fails only when it has ended
						time.Sleep(time.Millisecond)
					}
				}()
				rest, err := io.ReadAll(out)
				if err != nil {
					t.Error(err)
				}
				if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), " lost, ") {
					t.Errorf("%v, stderr %q, and the last it says is %q", err, stderr.String(), rest[max(len(rest)-200, 0):])
				}
				if _, out, _ := run(t, "doctor", sample); strings.Contains(out, "code at ") {
					t.Errorf("code is left in the program:\n%s", out)
				}
			})
		}
	}
}
