package gostate

import (
	"slices"
	"testing"

	"github.com/loupe-go/loupe/event"
)

func TestWaits(t *testing.T) {
	for _, test := range []struct {
		reason    string
		want      Wait
		contended bool
	}{
		{MutexLock, WaitLock, true},
		{RWMutexRLock, WaitLock, true},
		{RWMutexLock, WaitLock, true},
		{Semacquire, WaitSemaphore, true},
		{GroupWait + " (durable)", WaitSync, false},
		{CondWait, WaitSync, false},
		{"chan send", WaitSend, true},
		{"chan send (synctest)", WaitSend, true},
		{"chan send (nil chan)", WaitSend, true},
		{"chan receive", WaitReceive, false},
		{"select", WaitSelect, false},
		{"select (no cases)", WaitOther, false},
		{"GC assist wait", WaitGC, true},
		{event.WaitText(Semacquire, "GC mark termination"), WaitGC, true},
		{event.WaitText(Semacquire, "stop the world"), WaitOther, false},
		{"GC worker (idle)", WaitOther, false},
		{"IO wait", WaitOther, false},
		{"sleep", WaitOther, false},
		{Coroutine, WaitOther, false},
		{"", WaitOther, false},
	} {
		if got := WaitOf(test.reason); got != test.want || Contended(test.reason) != test.contended {
			t.Errorf("%q: class %d, want %d; contended %v", test.reason, got, test.want, Contended(test.reason))
		}
	}
}

func TestSemaphores(t *testing.T) {
	for _, test := range []struct {
		reason  string
		stack   []string
		lock    bool
		precise string
	}{
		{Semacquire, []string{"sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock", "main.f"}, true, MutexLock},
		{Semacquire, []string{"sync.(*Mutex).Lock", "sync.(*RWMutex).Lock"}, true, RWMutexLock},
		{Semacquire, []string{"sync.runtime_SemacquireMutex", "sync.(*RWMutex).RLock"}, true, RWMutexRLock},
		{Semacquire, []string{"sync.(*Mutex).Unlock"}, true, Semacquire},
		{Semacquire, []string{"sync.(*WaitGroup).Wait"}, false, GroupWait},
		{Semacquire, []string{"internal/poll.runtime_Semacquire"}, false, Semacquire},
		{Semacquire, nil, false, Semacquire},
		{MutexLock, nil, true, MutexLock},
		{"chan send", []string{"sync.(*Mutex).Lock"}, false, "chan send"},
	} {
		stack := &event.Stack{}
		for _, f := range test.stack {
			stack.Frames = append(stack.Frames, event.Frame{Func: f})
		}
		if test.stack == nil {
			stack = nil
		}
		if got := ForLock(test.reason, stack); got != test.lock {
			t.Errorf("%q in %q: for a lock %v, want %v", test.reason, test.stack, got, test.lock)
		}
		if got := Precise(test.reason, slices.Values(test.stack)); got != test.precise {
			t.Errorf("%q in %q: %q, want %q", test.reason, test.stack, got, test.precise)
		}
	}
}
