package main

import (
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// A bystander takes bystanderTakes of a processor's time every bystanderPeriod, which is what a reader of the events of a
// web server under load takes, at the same intervals. It observes nothing.
const (
	bystanderPeriod = 2 * time.Millisecond
	bystanderTakes  = 200 * time.Microsecond
)

// bystanderWay measures what the presence of a process costs the others.
var bystanderWay = way{
	fmt.Sprintf("a process that observes nothing and is busy for %v every %v", bystanderTakes, bystanderPeriod),
	func(b *bench, _ *target, cpu int) (watcher, error) {
		w := bystander{cmd: exec.Command(b.self, "-bystander")}
		return w, startOn(cpu, w.cmd)
	},
}

// bystander is a running bystander process.
type bystander struct {
	nobody
	cmd *exec.Cmd
}

func (w bystander) close() error {
	if err := w.cmd.Process.Kill(); err != nil {
		return err
	}
	w.cmd.Wait() // says that it was killed
	return nil
}

// beBystander is what the process does. It sleeps without the knowledge of Go's scheduler, which would take time too.
func beBystander() error {
	for {
		ts := unix.NsecToTimespec((bystanderPeriod - bystanderTakes).Nanoseconds())
		if err := unix.Nanosleep(&ts, nil); err != nil && err != unix.EINTR {
			return err
		}
		for end := time.Now().Add(bystanderTakes); time.Now().Before(end); {
		}
	}
}
