package script

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	goWaiting, goInSyscall, eventString = 31, 32, 37
)

// listed returns the states of goroutines as tracebacks spell them.
func listed() map[uint64]string {
	states, buf := map[uint64]string{}, make([]byte, 1<<20)
	for _, line := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n")) {
		rest, ok := strings.CutPrefix(string(line), "goroutine ")
		number, state, found := strings.Cut(rest, " [")
		if id, err := strconv.ParseUint(number, 10, 64); ok && found && err == nil {
			state, _, _ = strings.Cut(state, "]")
			state, _, _ = strings.Cut(state, ",")
			states[id] = state
		}
	}
	return states
}

// register lets an agent register again for what exists, and returns what it gets.
func register(agent string) []Event {
	n := len(Seen(agent))
	Check(again(agent) == 0, "registering again")
	return Seen(agent)[n:]
}

// States compares the goroutines that an agent gets when it registers for a state with tracebacks before and after.
func States(agent string) {
	never := make(chan int)
	r, w, _ := os.Pipe()
	fd := r.Fd() // and makes it blocking
	file := os.NewFile(fd, "pipe")
	for state, f := range map[string]func(){
		"chan receive": func() { <-never },
		"select": func() {
			select {
			case <-never:
			case <-make(chan int):
			}
		},
		"sleep":   func() { time.Sleep(time.Hour) },
		"syscall": func() { file.Read(make([]byte, 1)) },
	} {
		id := make(chan uint64)
		go func(f func()) {
			id <- goid()
			f()
		}(f)
		for g := <-id; listed()[g] != state; {
			time.Sleep(time.Millisecond)
		}
	}
	for i := 0; i < 300; i++ {
		go func() { <-never }()
	}
	for i := 0; i < 3; i++ {
		before := listed()
		got := map[[2]uint64]int{}
		for _, e := range register(agent) {
			if e.Number == goWaiting || e.Number == goInSyscall {
				got[[2]uint64{uint64(e.Number), e.G}]++
				Check(e.G != 0 && e.Late && e.Time > 0, "state", e)
			}
		}
		have := func(id uint64) [2]int { return [2]int{got[[2]uint64{goWaiting, id}], got[[2]uint64{goInSyscall, id}]} }
		after, count := listed(), map[string]int{}
		for id, state := range before {
			if after[id] != state {
				continue
			}
			count[state]++
			want := [2]int{}
			switch state {
			case "syscall":
				want[1] = 1
			case "running", "runnable": // the one that runs calls C code, which is a system call
				want[1] = have(id)[1]
			default:
				want[0] = 1
			}
			Check(have(id) == want, "state", state, id, have(id), want)
		}
		for _, state := range []string{"chan receive", "select", "sleep", "syscall"} {
			Check(count[state] > 0, "no goroutine is in state", state, count)
		}
	}
	close(never)
	w.Write([]byte{1})
}

// Strings compares the strings that an agent has got, and those that it gets when it registers again, with what the script uses.
func Strings(agent string) {
	long := strings.Repeat("value", 100)[:31] // as the agent cuts it off
	for _, seen := range [][]Event{Seen(agent), register(agent)} {
		got := map[string]int{}
		for _, e := range seen {
			if e.Number == eventString {
				got[e.Text[0]]++
			}
		}
		Check(len(got) == 4 && got["task"] == 1 && got["region"] == 1 && got["key"] == 1 && got[long] == 1, "strings", got)
	}
}
