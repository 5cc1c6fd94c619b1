package nap

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRate asks after times of different lengths: what counts is how much comes in a second.
func TestRate(t *testing.T) {
	for _, since := range []time.Duration{10 * time.Second, 100 * time.Second} {
		for _, test := range []struct {
			rate float64 // of bytes a second, as a part of what is fast
			want Speed
		}{{0, Few}, {0.4, Few}, {0.8, Some}, {2, Fast}} {
			r := Rate{asked: time.Now().Add(-since)}
			if got := r.Next(uint64(test.rate * fastBytes * since.Seconds())); got != test.want {
				t.Errorf("%v of what is fast, for %v: %v", test.rate, since, got)
			}
		}
	}
	if got := new(Rate).Next(1 << 40); got != Few {
		t.Errorf("%v, when asked for the first time", got)
	}
}

// TestPauses lets records come at constant rates: the pause becomes as long as the room for a burst permits.
func TestPauses(t *testing.T) {
	const room = 1 << 20
	p := Pauses{Least: 2 * time.Millisecond, Most: 10 * time.Millisecond}
	for _, test := range []struct {
		rate float64 // a second, as a part of the room
		want time.Duration
	}{{1, p.Most}, {40, 4 * time.Millisecond}, {1000, p.Least}} {
		pause := 500 * time.Microsecond
		for range 10 {
			pause = p.Next(pause, uint64(test.rate*room*pause.Seconds()), room)
		}
		if pause != test.want {
			t.Errorf("%v times the room a second: a pause of %v, want %v", test.rate, pause, test.want)
		}
	}
}

// TestShare has more and more readers.
func TestShare(t *testing.T) {
	const few = 50 * time.Microsecond
	open := func() {
		var n Napper
		n.Open()
		t.Cleanup(n.Close)
	}
	for n, want := range []time.Duration{few, few, 4 * few, 9 * few} {
		if got := Share(few); got != want {
			t.Errorf("%d readers: %v, want %v", n, got, want)
		}
		open()
	}
	for range 100 {
		open()
	}
	if got := Share(few); got != longest {
		t.Errorf("104 readers: %v, want %v", got, longest)
	}
	var closed Napper
	closed.Open()
	before := readers.Load()
	closed.Close()
	closed.Close()
	if n := readers.Load(); n != before-1 {
		t.Errorf("%d readers after one of %d was closed twice", n, before)
	}
	if got := Share(2 * longest); got != 2*longest {
		t.Errorf("a pause of %v becomes %v", 2*longest, got)
	}
}

// TestSlice looks at the time slice of the thread that has slept.
func TestSlice(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slice := func() uint64 {
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return attr.Runtime
	}
	usual := slice()
	if usual == 0 {
		t.Skip("this kernel has no time slices of threads: they require Linux 6.12")
	}
	var n Napper
	n.Sleep(hurry, false)
	if got := slice(); got != uint64(shortSlice) {
		t.Errorf("after a short sleep the slice is %d ns", got)
	}
	for _, fast := range []bool{false, true} {
		n.Sleep(hurry, fast)
		n.Sleep(hurry+1, fast)
		if got := slice(); got != usual {
			t.Errorf("after a long sleep the slice is %d ns, want %d", got, usual)
		}
	}
}
