// Command cpu profiles itself as an application and as an agent, with different rates and at overlapping times. It compares the number
// of samples of each profile with the CPU time of the process.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/glti"
)

// cpuTime returns the CPU time of the process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var sink uint64

// burn uses the processors until the process has used d more.
func burn(d time.Duration) {
	until := cpuTime() + d
	var wg sync.WaitGroup
	for i := 0; i < 2; i++ {
		wg.Add(1)
		go func() { defer wg.Done(); hot(until) }()
	}
	wg.Wait()
}

//go:noinline
func hot(until time.Duration) {
	var n uint64
	for cpuTime() < until {
		for i := uint64(0); i < 1e6; i++ {
			n += i * n
		}
	}
	if n == 1 {
		sink = n
	}
}

// A profile is one of the application.
type profile struct {
	out   bytes.Buffer
	hz    int
	begin time.Duration
}

func startApp(hz int) *profile {
	p := &profile{hz: hz, begin: cpuTime()}
	if hz != 100 {
		runtime.SetCPUProfileRate(hz) // then StartCPUProfile prints that the rate is set, and uses it
	}
	if err := pprof.StartCPUProfile(&p.out); err != nil {
		fmt.Println("StartCPUProfile:", err)
		os.Exit(1)
	}
	return p
}

func (p *profile) stop(name string) {
	pprof.StopCPUProfile()
	used := cpuTime() - p.begin
	z, err := gzip.NewReader(&p.out)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	check(name, samples(text), used.Seconds()*float64(p.hz))
}

var failed bool

// check compares a number of samples with the expected one. Samples are random, and on a busy machine the kernel sends fewer signals: it
// checks the timers of a thread only if the thread is running at a tick of its clock.
func check(name string, got int, want float64) {
	if float64(got) > want*5/4+10 || float64(got) < want*2/5-5 {
		fmt.Printf("%s: %d samples, expected %.0f\n", name, got, want)
		failed = true
	}
}

// samples returns the sum of the first values of the samples of a profile.proto.
func samples(text []byte) (sum int) {
	each(text, func(field int, value uint64, bytes []byte) {
		if field == 2 { // Profile.sample
			first := true
			each(bytes, func(field int, value uint64, bytes []byte) {
				if field == 2 && first { // Sample.value, packed or not
					if bytes != nil {
						value, _ = varint(bytes)
					}
					sum, first = sum+int(value), false
				}
			})
		}
	})
	return sum
}

// each calls f for each field of a message.
func each(text []byte, f func(field int, value uint64, bytes []byte)) {
	for len(text) > 0 {
		tag, n := varint(text)
		text = text[n:]
		value, n := varint(text)
		text = text[n:]
		if tag&7 == 2 {
			f(int(tag>>3), 0, text[:value])
			text = text[value:]
			continue
		}
		f(int(tag>>3), value, nil)
	}
}

func varint(b []byte) (v uint64, n int) {
	for shift := 0; ; shift += 7 {
		c := b[n]
		n++
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, n
		}
	}
}

// agent is a profile of the agent.
type agent struct{ begin time.Duration }

func startAgent(hz int) agent {
	a := agent{cpuTime()}
	if !glti.StartCPU(hz) {
		fmt.Println("cannot start the profile of the agent")
		os.Exit(1)
	}
	return a
}

func (a agent) stop(name string) {
	hz, list := glti.StopCPU()
	used := cpuTime() - a.begin
	hots := 0
	for _, stack := range list {
		for _, pc := range stack {
			if f := runtime.FuncForPC(uintptr(pc) - 1); f != nil && f.Name() == "main.hot" {
				hots++
				break
			}
		}
	}
	check(name, len(list), used.Seconds()*float64(hz))
	check(name+", in main.hot", hots, float64(len(list)))
}

func main() {
	const d = 800 * time.Millisecond
	p := startApp(50)
	burn(d)
	p.stop("application alone")

	a := startAgent(50)
	burn(d)
	p = startApp(50)
	burn(d)
	p.stop("application within the agent's profile")
	burn(d)
	p = startApp(100)
	burn(d)
	p.stop("faster application within the agent's profile")
	a.stop("agent around the application's profiles")

	p = startApp(50)
	burn(d)
	a = startAgent(100)
	burn(d)
	if glti.StartCPU(10) {
		fmt.Println("there are two profiles of agents")
		failed = true
	}
	a.stop("faster agent within the application's profile")
	burn(d)
	p.stop("application around the agent's profile")

	p = startApp(50)
	burn(d)
	p.stop("application after the agent")
	a = startAgent(50)
	a.stop("agent without work")
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}
