package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A scriptPhase has workers do one thing, each in so many rounds. What follows is
// exact, because a worker is released only after it has been seen to wait.
type scriptPhase struct {
	Name string `json:"name"`
	// Wait is how a traceback shows a waiting worker; empty when workers do not
	// wait.
	Wait string `json:"wait"`
	// Scheduler says that the scheduler wakes the workers, not the goroutine
	// that runs the script.
	Scheduler bool `json:"scheduler"`
	// Each worker does this so many times.
	Blocks  int `json:"blocks"`
	Yields  int `json:"yields"`
	Creates int `json:"creates"`
	// Workers are the IDs of the goroutines.
	Workers []uint64 `json:"workers"`

	waits []string // what Wait can be, by release
	round func(w *scriptWorker, round int)
	// release ends the wait of a worker; nil when it ends by itself.
	release func(w *scriptWorker, round int)
	prepare func(w *scriptWorker, rounds int)
}

// A scriptWorker has what one worker waits for.
type scriptWorker struct {
	id    uint64 // of the goroutine
	done  int32  // rounds
	c     chan int
	other chan int
	locks []sync.Mutex
	work  []sync.WaitGroup
	mu    sync.Mutex
	cond  *sync.Cond
	r, w  *os.File
}

// scriptResult is the answer to the command.
type scriptResult struct {
	Main   uint64         `json:"main"` // the ID of the goroutine that runs the script
	Rounds int            `json:"rounds"`
	Phases []*scriptPhase `json:"phases"`
}

// scriptPhases returns all phases for so many rounds.
func scriptPhases(rounds int) []*scriptPhase {
	return []*scriptPhase{
		{
			Name: "chan receive", Blocks: rounds, waits: []string{"chan receive"},
			round:   func(w *scriptWorker, _ int) { <-w.c },
			release: func(w *scriptWorker, _ int) { w.c <- 1 },
		},
		{
			Name: "chan send", Blocks: rounds, waits: []string{"chan send"},
			round:   func(w *scriptWorker, _ int) { w.c <- 1 },
			release: func(w *scriptWorker, _ int) { <-w.c },
		},
		{
			Name: "select", Blocks: rounds, waits: []string{"select"},
			round: func(w *scriptWorker, _ int) {
				select {
				case <-w.c:
				case w.other <- 1:
				}
			},
			release: func(w *scriptWorker, round int) {
				if round%2 == 0 {
					w.c <- 1
				} else {
					<-w.other
				}
			},
		},
		{
			Name: "mutex", Blocks: rounds, waits: []string{"semacquire", "sync.Mutex.Lock"},
			prepare: func(w *scriptWorker, rounds int) {
				w.locks = make([]sync.Mutex, rounds)
				for i := range w.locks {
					w.locks[i].Lock()
				}
			},
			round:   func(w *scriptWorker, round int) { w.locks[round].Lock() },
			release: func(w *scriptWorker, round int) { w.locks[round].Unlock() },
		},
		{
			Name: "wait group", Blocks: rounds, waits: []string{"semacquire", "sync.WaitGroup.Wait"},
			prepare: func(w *scriptWorker, rounds int) {
				w.work = make([]sync.WaitGroup, rounds)
				for i := range w.work {
					w.work[i].Add(1)
				}
			},
			round:   func(w *scriptWorker, round int) { w.work[round].Wait() },
			release: func(w *scriptWorker, round int) { w.work[round].Done() },
		},
		{
			Name: "cond", Blocks: rounds, waits: []string{"sync.Cond.Wait"},
			prepare: func(w *scriptWorker, _ int) { w.cond = sync.NewCond(&w.mu) },
			round: func(w *scriptWorker, _ int) {
				w.mu.Lock()
				w.cond.Wait()
				w.mu.Unlock()
			},
			release: func(w *scriptWorker, _ int) { w.cond.Signal() },
		},
		{
			Name: "pipe", Blocks: rounds, waits: []string{"IO wait"}, Scheduler: true,
			prepare: func(w *scriptWorker, _ int) {
				var err error
				w.r, w.w, err = os.Pipe()
				check(err)
			},
			round: func(w *scriptWorker, _ int) {
				_, err := w.r.Read(make([]byte, 1))
				check(err)
			},
			release: func(w *scriptWorker, _ int) {
				_, err := w.w.Write([]byte{1})
				check(err)
			},
		},
		{
			Name: "sleep", Blocks: rounds, Wait: "sleep", Scheduler: true,
			round: func(*scriptWorker, int) { time.Sleep(500 * time.Microsecond) },
		},
		{
			Name: "yield", Yields: rounds,
			round: func(*scriptWorker, int) { runtime.Gosched() },
		},
		{
			Name: "create", Creates: rounds,
			round: func(*scriptWorker, int) { go scriptChild() },
		},
	}
}

// script runs all phases and returns the answer.
func script(workers, rounds int) string {
	// The collector would preempt workers.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	result := scriptResult{Main: goroutineID(), Rounds: rounds}
	for _, p := range scriptPhases(rounds) {
		p.runAll(workers, rounds)
		result.Phases = append(result.Phases, p)
	}
	text, err := json.Marshal(result)
	if err != nil {
		return "error " + err.Error()
	}
	return "scripted " + string(text)
}

// runAll runs one phase and returns when its workers and their children ended.
func (p *scriptPhase) runAll(count, rounds int) {
	workers := make([]*scriptWorker, count)
	for i := range workers {
		w := &scriptWorker{c: make(chan int), other: make(chan int)}
		if p.prepare != nil {
			p.prepare(w, rounds)
		}
		workers[i] = w
		go func() { p.worker(w, rounds) }()
	}
	for round := 0; p.release != nil && round < rounds; round++ {
		p.awaitWaiting(workers, round)
		for _, w := range workers {
			p.release(w, round)
		}
	}
	for scriptGoroutines() > 0 || !allDone(workers, rounds) {
		time.Sleep(time.Millisecond)
	}
	for _, w := range workers {
		p.Workers = append(p.Workers, w.id)
		if w.r != nil {
			check(w.r.Close())
			check(w.w.Close())
		}
	}
}

func (p *scriptPhase) worker(w *scriptWorker, rounds int) {
	atomic.StoreUint64(&w.id, goroutineID())
	for i := 0; i < rounds; i++ {
		p.round(w, i)
		atomic.AddInt32(&w.done, 1)
	}
}

func scriptChild() {}

// awaitWaiting returns when all workers wait in a round, by the testimony of the
// runtime's traceback.
func (p *scriptPhase) awaitWaiting(workers []*scriptWorker, round int) {
	for {
		// The rounds are read before the traceback: a worker that waits in it waits
		// in this round. If they were read after it, a worker that the scheduler has
		// yet to wake from its last wait could end its round in between.
		inRound := make([]bool, len(workers))
		for i, w := range workers {
			inRound[i] = int(atomic.LoadInt32(&w.done)) == round
		}
		states := goroutineStates()
		waiting := 0
		for i, w := range workers {
			state := states[atomic.LoadUint64(&w.id)]
			for _, wait := range p.waits {
				if state == wait && inRound[i] {
					p.Wait = wait
					waiting++
				}
			}
		}
		if waiting == len(workers) {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// allDone says whether all workers have done their rounds. One that has not begun
// yet is in no function of this program.
func allDone(workers []*scriptWorker, rounds int) bool {
	for _, w := range workers {
		if int(atomic.LoadInt32(&w.done)) != rounds {
			return false
		}
	}
	return true
}

// scriptGoroutines returns how many workers and children are alive.
func scriptGoroutines() int {
	text := allStacks()
	return bytes.Count(text, []byte("main.(*scriptPhase).worker(")) + bytes.Count(text, []byte("main.scriptChild("))
}

// goroutineStates returns the states of all goroutines by ID.
func goroutineStates() map[uint64]string {
	states := make(map[uint64]string)
	for _, g := range bytes.Split(allStacks(), []byte("\n\n")) {
		id, state := goroutineHeader(g)
		states[id] = state
	}
	return states
}

// goroutineID returns the ID of the caller.
func goroutineID() uint64 {
	buf := make([]byte, 100)
	id, _ := goroutineHeader(buf[:runtime.Stack(buf, false)])
	return id
}

// goroutineHeader reads `goroutine 12 [chan receive, 3 minutes]:`.
func goroutineHeader(text []byte) (id uint64, state string) {
	open, shut := bytes.IndexByte(text, '['), bytes.IndexByte(text, ']')
	if open < 0 || shut < open || !bytes.HasPrefix(text, []byte("goroutine ")) {
		check(fmt.Errorf("no goroutine begins with %q", text))
	}
	number := text[len("goroutine "):]
	number = number[:bytes.IndexByte(number, ' ')]
	id, err := strconv.ParseUint(string(number), 10, 64)
	check(err)
	state = string(text[open+1 : shut])
	if comma := bytes.IndexByte([]byte(state), ','); comma >= 0 {
		state = state[:comma]
	}
	return id, state
}
