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
				for began := time.Now(); ; {
					rest, stderr, took, err := endTrace(t, engine, sample, test.signal, test.times)
					if took >= sameRequest && strings.HasSuffix(stderr, "loupe: interrupted\n") && time.Since(began) < patience {
						continue // the machine has stalled, and the last signals were another request
					}
					if err != nil || !strings.Contains(rest, " lost, ") {
						t.Errorf("%v, stderr %q, and the last it says is %q", err, stderr, rest[max(len(rest)-200, 0):])
					}
					break
				}
				if _, out, _ := run(t, "doctor", sample); strings.Contains(out, "code at ") {
					t.Errorf("code is left in the program:\n%s", out)
				}
			})
		}
	}
}

// sameRequest is the time in which more signals are the same request to end.
const sameRequest = time.Second

// endTrace asks loupe trace to end, some times within moments, as soon as it has written a line. It returns what it wrote after
// that, and how long it took to end.
func endTrace(t *testing.T, engine, sample string, signal syscall.Signal, times int) (rest, stderr string, took time.Duration, err error) {
	t.Helper()
	cmd := testcmd.Command(t, loupe, "trace", "--engine", engine, sample)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
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
		t.Fatalf("%v, stderr %q", err, errOut.String())
	}
	asked := time.Now()
	go func() {
		for range times {
			cmd.Process.Signal(signal) // fails only when it has ended
			time.Sleep(time.Millisecond)
		}
	}()
	text, err := io.ReadAll(out)
	if err != nil {
		t.Error(err)
	}
	err = cmd.Wait()
	return string(text), errOut.String(), time.Since(asked), err
}
