package ptrace

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/testtarget"
)

func init() { helpers["waits"] = waits }

// aWait is one kind of system call that waits. Each has a thread of its own that makes it again and again.
type aWait struct {
	name string
	want error
	time time.Duration // after which it ends; 0 when another thread ends it
	call func() error
}

const waitTime = 60 * time.Millisecond

const tooFew = ": too few"

// waits makes system calls that wait and tells how they end. No signals come: what interrupts them is the tracer.
func waits([]string) {
	var mu sync.Mutex
	lines := map[string]string{}
	rounds := map[string]int{}
	for _, w := range waitKinds() {
		go func() {
			runtime.LockOSThread()
			for n := 1; ; n++ {
				begin := time.Now()
				err := w.call()
				took := time.Since(begin)
				mu.Lock()
				switch {
				case err != w.want:
					lines[w.name] = fmt.Sprintf("%s: %v in round %d", w.name, err, n)
				case took < w.time:
					lines[w.name] = fmt.Sprintf("%s: ended after %v", w.name, took)
				}
				rounds[w.name]++
				mu.Unlock()
			}
		}()
	}
	fmt.Printf("ready %d\n", os.Getpid())
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		mu.Lock()
		if in.Text() == "clear" { // what happened while it started
			lines, rounds = map[string]string{}, map[string]int{}
		}
		var all []string
		for _, w := range waitKinds() {
			if lines[w.name] != "" {
				all = append(all, lines[w.name])
			}
			if rounds[w.name] < 2 && in.Text() != "clear" && !wholeAgain[runtime.GOARCH][w.name] { // a call that began anew with each stop would not end
				all = append(all, w.name+tooFew)
			}
		}
		fmt.Println("wrong:", strings.Join(all, ", "))
		mu.Unlock()
	}
}

// waitKinds returns system calls of all ways in which the kernel restarts them: at once, with the remaining time
// (nanosleep, futex, poll), with a changed signal mask (ppoll).
func waitKinds() []aWait {
	timeout := unix.NsecToTimespec(int64(waitTime))
	return []aWait{
		{"nanosleep", nil, waitTime, func() error { ts := timeout; return unix.Nanosleep(&ts, nil) }},
		{"clock_nanosleep", nil, waitTime, func() error {
			ts := timeout
			return unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil)
		}},
		{"futex with time-out", unix.ETIMEDOUT, waitTime, func() error {
			var word uint32
			return futex(&word, 128, 0, &timeout)
		}},
		{"futex", nil, 0, func() error {
			var word uint32
			go func() { time.Sleep(waitTime); atomic.StoreUint32(&word, 1); futex(&word, 129, 1, nil) }()
			err := futex(&word, 128, 0, nil)
			if err == unix.EAGAIN && atomic.LoadUint32(&word) == 1 { // woken while it was stopped
				err = nil
			}
			return err
		}},
		{"read", nil, 0, func() error {
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				return err
			}
			defer unix.Close(p[0])
			go func() { time.Sleep(waitTime); unix.Write(p[1], []byte("word")); unix.Close(p[1]) }()
			var b [8]byte
			n, err := unix.Read(p[0], b[:])
			if err == nil && string(b[:n]) != "word" {
				return fmt.Errorf("read %q", b[:n])
			}
			return err
		}},
		{"accept", nil, 0, accept},
		{"ppoll", nil, waitTime, func() error {
			ts, mask := timeout, uint64(1<<9)
			_, _, errno := unix.Syscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), uintptr(unsafe.Pointer(&mask)), 8, 0)
			if errno != 0 {
				return errno
			}
			return nil
		}},
	}
}

func futex(word *uint32, op, value uintptr, timeout *unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), op, value, uintptr(unsafe.Pointer(timeout)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func accept() error {
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	if err := unix.Bind(l, &unix.SockaddrUnix{}); err != nil { // the kernel chooses a name
		return err
	}
	if err := unix.Listen(l, 1); err != nil {
		return err
	}
	name, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	go func() {
		time.Sleep(waitTime)
		c, _ := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		defer unix.Close(c)
		unix.Connect(c, name)
	}()
	c, _, err := unix.Accept(l)
	if err == nil {
		unix.Close(c)
	}
	return err
}

// wholeAgain are the calls that wait for their whole time again when their thread was used for a call, on an architecture
// where a tracer cannot see what is left of it (package comment).
var wholeAgain = map[string]map[string]bool{
	"arm64": {"nanosleep": true, "clock_nanosleep": true, "futex with time-out": true},
}

// TestRestart makes calls in threads that wait in the kernel: their own calls go on as if nothing had been. Where one has a
// time-out it goes on with what is left of it.
func TestRestart(t *testing.T) {
	cmd := helper(t, "waits")
	cmd.Env = append(cmd.Env, "GODEBUG=asyncpreemptoff=1", "GOGC=off") // the runtime's own signals interrupt calls too
	target := testtarget.StartCmd(t, cmd)
	for begin := time.Now(); strings.Contains(target.Command("report"), tooFew) && time.Since(begin) < time.Minute; { // it starts
		time.Sleep(waitTime)
	}
	target.Command("clear")
	inCall := 0
	const stops, most = 60, 600
	got := ""
	for n := 1; ; n++ {
		s := mustStop(t, target.PID(), Options{})
		err := s.Do(func() error {
			for _, th := range s.threads {
				if th.Regs.inCall() {
					inCall++
				}
				if _, err := s.call(th, unix.SYS_GETTID); err != nil {
					return err
				}
			}
			return nil
		})
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(waitTime / 7)
		if n < stops {
			continue
		}
		// On a busy machine the program needs more time for its rounds. The calls are stopped all the while: they do not end only
		// because nothing stops them any more.
		if got = target.Command("report"); !strings.Contains(got, tooFew) || n == most {
			break
		}
	}
	if got != "wrong: " {
		t.Error(got)
	}
	if inCall < stops*len(waitKinds())/2 && runtime.GOARCH == "amd64" {
		t.Errorf("only %d calls of the program were interrupted", inCall)
	}
}
