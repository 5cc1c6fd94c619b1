package uprobe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe/nap"
	"github.com/loupe-go/loupe/internal/probe/ring"
)

// waker waits for records at little cost for the target: waking a reader is work for the thread that hits a probe, so
// a wake-up is requested only when no record has come for a while.
type waker struct {
	epoll   int
	pidfd   int
	eventfd int
	nap     nap.Napper
	rate    nap.Rate
	pause   time.Duration
	most    time.Duration // the longest poll interval while records come fast
	fast    bool          // they do
	stopped atomic.Bool
	ended   bool       // the process has exited
	mu      sync.Mutex // stop writes to eventfd, close closes it
}

const (
	// pauseBusy is the poll interval while records come fast. It is pauseMost while only requests are followed, which do not come in
	// bursts, and which nobody has to know of at once. pauseSome and pauseFew are how long the reader sleeps before it requests a wake-up
	// while they come more slowly: those of a burst are to share one.
	pauseBusy = 1 * time.Millisecond
	pauseMost = 10 * time.Millisecond
	pauseSome = 200 * time.Microsecond
	pauseFew  = 50 * time.Microsecond
	// lookAgain is the first sleep, in milliseconds: a record may have come before the probes saw the request.
	// lookLater bounds later sleeps. Needless wake-ups are expensive: Go's sysmon wakes up too, and
	// stays awake for about 50 short sleeps.
	lookAgain = 1
	lookLater = 1000
)

func newWaker(pid, ringFD int) (*waker, error) {
	w := &waker{epoll: -1, pidfd: -1, eventfd: -1, most: pauseBusy}
	w.nap.Open()
	if err := w.open(pid, ringFD); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *waker) open(pid, ringFD int) error {
	var err error
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if w.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		return fmt.Errorf("watching process %d: %w", pid, err)
	}
	if w.eventfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{w.pidfd, w.eventfd, ringFD} {
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if fd == ringFD {
			ev.Events |= unix.EPOLLET // level-triggered events would repeat while records are unread
		}
		if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

// wait returns true if there may be records, false if no more will come.
func (w *waker) wait(ctx context.Context, r *ring.Ring, control *controlPage) bool {
	if w.ended || w.stopped.Load() || ctx.Err() != nil {
		return false
	}
	release := context.AfterFunc(ctx, w.stop)
	defer release()
	w.pause = w.next(r.Since(), r.Size())
	w.nap.Sleep(w.pause, w.fast)
	if !r.Empty() {
		return !w.stopped.Load()
	}
	control.sleep(true)
	defer control.sleep(false)
	if !r.Empty() { // a record came before the probes saw the request
		return true
	}
	var events [4]unix.EpollEvent
	for timeout := lookAgain; ; {
		n, err := unix.EpollWait(w.epoll, events[:], timeout)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 && err == nil && timeout == lookAgain && r.Empty() {
			timeout = lookLater
			continue
		}
		if err != nil {
			return false
		}
		for _, ev := range events[:n] {
			switch int(ev.Fd) {
			case w.pidfd:
				w.ended = true
			case w.eventfd:
				w.clear()
			}
		}
		return !w.ended && !w.stopped.Load()
	}
}

// next returns the next pause, given how many bytes came during the last one of those that the buffer has room for.
func (w *waker) next(bytes, room uint64) time.Duration {
	pause, speed := pauseFew, w.rate.Next(bytes)
	w.fast = speed == nap.Fast
	switch {
	case w.fast:
		return nap.Pauses{Least: pauseBusy, Most: w.most}.Next(w.pause, bytes, room)
	case w.most > pauseBusy:
		return w.most
	case speed == nap.Some:
		pause = pauseSome
	}
	return nap.Share(pause)
}

// wake makes the current call of wait, or the next one, return true.
func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.eventfd >= 0 {
		unix.Write(w.eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// clear forgets calls of wake.
func (w *waker) clear() {
	var n [8]byte
	unix.Read(w.eventfd, n[:])
}

// stop makes wait return false.
func (w *waker) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped.Swap(true) && w.eventfd >= 0 {
		unix.Write(w.eventfd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

func (w *waker) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, fd := range []int{w.epoll, w.pidfd, w.eventfd} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	w.epoll, w.pidfd, w.eventfd = -1, -1, -1
	w.nap.Close()
	return errors.Join(errs...)
}
