package inline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe/nap"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// watch polls for records: waking a reader would cost the target time, and require a system call that its
// seccomp filter may forbid. It polls less often while many records come or none. It also detects when the process exits or
// executes another program.
type watch struct {
	pid     int
	memory  uint64 // in the process, for as long as it is the same program
	pidfd   int
	nap     nap.Napper
	rate    nap.Rate
	stopped atomic.Bool
	woken   atomic.Bool // wait is to return
	closing atomic.Bool // the memory is being removed
	ended   bool
	exec    bool // it has executed another program, and no record says so yet

	ring   uint64        // bytes that a lane has room for
	most   time.Duration // the longest poll interval while records come fast
	coarse bool          // each poll is a sample of the clock
	quiet  time.Duration // time since the last record
	pause  time.Duration // time until the next poll
	fast   bool          // records come fast
	looked time.Time     // after the process

	reads    *reads
	places   *places // nil until the places are patched
	searched time.Time
}

const (
	// pauseLong is the poll interval while records come fast, so that each poll finds many, and when none have come for
	// quietAfter. It is pauseMost while only requests are followed, which do not come in bursts, and which nobody has to know of at
	// once. pauseFew is the interval while a few come.
	pauseLong  = 2 * time.Millisecond
	pauseMost  = 10 * time.Millisecond
	pauseFew   = 500 * time.Microsecond
	quietAfter = time.Second
	// pauseBehind is the interval while they come almost too fast for the rings or the reader.
	pauseBehind = 200 * time.Microsecond
	// lookEvery is the interval between checks of the process.
	lookEvery = 2 * time.Millisecond
)

func newWatch(pid int) (*watch, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", pid, ptrace.ErrNoProcess)
	}
	if err != nil {
		return nil, fmt.Errorf("watching process %d: %w", pid, err)
	}
	w := &watch{pid: pid, pidfd: fd, pause: pauseFew, most: pauseLong}
	w.nap.Open()
	return w, nil
}

// came records how many bytes a poll found, and how long reading them took.
func (w *watch) came(bytes uint64, took time.Duration) {
	w.fast = w.rate.Next(bytes) == nap.Fast
	if bytes > 0 {
		w.quiet = 0
	} else {
		w.quiet += w.pause
	}
	switch {
	case bytes > w.ring/4 && w.pause <= pauseLong || took >= max(w.pause, pauseLong):
		w.pause = pauseBehind
	case w.fast:
		w.pause = nap.Pauses{Least: pauseLong, Most: w.most}.Next(w.pause, bytes, w.ring)
	case w.most > pauseLong:
		w.pause = w.most
	case w.quiet >= quietAfter:
		w.pause = w.share(pauseLong)
	default:
		w.pause = w.share(pauseFew)
	}
}

// share returns the pause of one reader among all of this process.
func (w *watch) share(d time.Duration) time.Duration {
	if w.coarse {
		return d
	}
	return nap.Share(d)
}

// wait returns true when it is time to poll, false if no more records will come.
func (w *watch) wait(ctx context.Context, r *Reader) bool {
	for !w.ended && !w.stopped.Load() && ctx.Err() == nil {
		w.nap.Sleep(w.pause, w.fast)
		now := time.Now()
		if now.Sub(w.looked) >= lookEvery {
			w.looked = now
			w.lookAfter()
		}
		if w.reads != nil {
			w.reads.look(r.region, now)
			if !w.exec {
				w.reads.learn(r.region, now)
			}
		}
		if w.places != nil && now.Sub(w.searched) >= searchEvery {
			w.searched = now
			w.places.look(w.closing.Load)
		}
		if woken := w.woken.Swap(false); !r.AllReported() || w.exec || woken {
			return !w.ended
		}
		w.came(0, 0)
	}
	return false
}

// lookAfter checks whether the process still exists and executes the same program.
func (w *watch) lookAfter() {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(w.pidfd), Events: unix.POLLIN}}, 0)
	if err == nil && n > 0 {
		w.ended = true
		return
	}
	if w.memory == 0 {
		return
	}
	var word [8]byte
	local := []unix.Iovec{{Base: &word[0], Len: uint64(len(word))}}
	_, err = unix.ProcessVMReadv(w.pid, local, []unix.RemoteIovec{{Base: uintptr(w.memory), Len: len(word)}}, 0)
	if errors.Is(err, unix.EFAULT) && !w.closing.Load() {
		w.exec, w.memory = true, 0
	}
}

// stop makes wait return. It may be called from any goroutine.
func (w *watch) stop() { w.stopped.Store(true) }

func (w *watch) close() error {
	if w.pidfd < 0 {
		return nil
	}
	w.nap.Close()
	fd := w.pidfd
	w.pidfd = -1
	return unix.Close(fd)
}
