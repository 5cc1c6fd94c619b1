package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestTopStopped stops top for two seconds in which its target creates goroutines. The first picture after that has all of
// them and the true length of its interval; no later one has them, whose rates would be far too high.
func TestTopStopped(t *testing.T) {
	const spawned = 2000
	for _, engine := range []string{"uprobe", "inline"} {
		t.Run(engine, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mill"}))
			cmd := testcmd.Command(t, loupe, "top", fmt.Sprint(target.PID()), "--json", "--interval", "300ms", "--engine", engine)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			type picture struct {
				Interval float64 `json:"intervalSeconds"`
				Created  int     `json:"created"`
				Lost     int     `json:"lost"`
			}
			lines := bufio.NewScanner(out)
			lines.Buffer(nil, 1<<20)
			next := func() (p picture) {
				t.Helper()
				if !lines.Scan() {
					t.Fatalf("no picture: %v", lines.Err())
				}
				if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
					t.Fatal(err)
				}
				return p
			}
			before := next()
			cmd.Process.Signal(syscall.SIGSTOP)
			if err := await(nil, "Loupe to stop", func() (bool, error) { return stateOf(cmd.Process.Pid) == 'T', nil }); err != nil {
				t.Fatal(err)
			}
			target.Command(fmt.Sprintf("spawn %d", spawned))
			time.Sleep(2 * time.Second)
			cmd.Process.Signal(syscall.SIGCONT)
			after := next()
			for after.Interval < 2 { // written before it stopped
				before, after = after, next()
			}
			if after.Lost != 0 || after.Created-before.Created < spawned {
				t.Errorf("%+v comes after %+v, with less than the %d goroutines that were created meanwhile", after, before, spawned)
			}
			if later := next(); later.Created-after.Created >= spawned/2 {
				t.Errorf("%+v comes after %+v", later, after)
			}
			cmd.Process.Signal(syscall.SIGINT)
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}
