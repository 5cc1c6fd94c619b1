// Command maker allocates objects of all kinds, and knows from the runtime how many.
//
// It adds the commands
//
//	measure N     reads runtime.MemStats, answers `armed`, reads a line, allocates N rounds, reads runtime.MemStats again, answers
//	              `done`, reads a line, and answers the differences: `measured MALLOCS BYTES TINY`, where TINY is the number of
//	              blocks of 16 bytes that are not those of other objects of that size. It allocates nothing else in between
//	round N       allocates N rounds, then `round N`
//	sizes         answers the sizes of the first size classes
//	records N     allocates N rounds, then answers `records` and what the memory profile has recorded of them in functions of
//	              package main: NAME OBJECTS BYTES ...; with MAKER_RATE=1 in the environment that is everything
//	churn N       starts N goroutines, one after the other, each of which allocates 64 bytes, then `churn N`
//	sites N       lets a goroutine of makeWide and one of makeNarrow allocate N objects of 4,096 and of 48 bytes, one after the other,
//	              then `sites OBJECTS BYTES OBJECTS BYTES`, as runtime.MemStats counts those of both
//	rate N        sets runtime.MemProfileRate to N, then `rate N`
//	sum N         computes and allocates in eight goroutines while the collector runs, then `sum CHECKSUM`
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func main() {
	if rate := os.Getenv("MAKER_RATE"); rate != "" {
		runtime.MemProfileRate = number(rate)
	}
	if n := os.Getenv("MAKER_PROCS"); n != "" {
		runtime.GOMAXPROCS(number(n))
	}
	round(3)
	serve(true, map[string]command{"measure": measure, "round": rounds, "sizes": sizes, "records": records, "churn": churn, "sites": sites, "rate": rate, "sum": sum})
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "maker: %q is not a number\n", text)
		os.Exit(2)
	}
	return n
}

var (
	before, after runtime.MemStats
	armed, done   = []byte("armed\n"), []byte("done\n")
	input         [64]byte
)

// exchange writes a line and reads one, without an allocation.
func exchange(line []byte) {
	syscall.Write(1, line)
	for n := 0; n == 0 || input[n-1] != '\n'; {
		m, err := syscall.Read(0, input[n:])
		if err == syscall.EINTR {
			continue
		}
		if m <= 0 {
			os.Exit(0)
		}
		n += m
	}
}

func measure(args []string) string {
	n := number(args[0])
	runtime.ReadMemStats(&before)
	runtime.ReadMemStats(&before)
	exchange(armed)
	round(n)
	runtime.ReadMemStats(&after)
	exchange(done)
	class := 0
	for after.BySize[class].Size != 16 {
		class++
	}
	return fmt.Sprintf("measured %d %d %d", after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc,
		after.BySize[class].Mallocs-before.BySize[class].Mallocs)
}

func rounds(args []string) string {
	round(number(args[0]))
	return "round " + args[0]
}

func sizes([]string) string {
	var list []string
	runtime.ReadMemStats(&after)
	for _, c := range after.BySize[1:] {
		list = append(list, strconv.Itoa(int(c.Size)))
	}
	return "sizes " + strings.Join(list, " ")
}

// recorded returns what the memory profile has recorded in functions of package main.
func recorded() map[string][2]int64 {
	for i := 0; i < 4; i++ {
		runtime.GC() // the profile is of the past but one
	}
	list := make([]runtime.MemProfileRecord, 10000)
	n, ok := runtime.MemProfile(list, true)
	if !ok {
		fmt.Fprintln(os.Stderr, "maker: more than 10,000 records")
		os.Exit(1)
	}
	sums := map[string][2]int64{}
	for _, r := range list[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if !strings.HasPrefix(f.Function, "runtime.") && !strings.HasPrefix(f.Function, "internal/runtime/") {
				s := sums[f.Function]
				s[0] += r.AllocObjects
				s[1] += r.AllocBytes
				sums[f.Function] = s
				break
			}
			if !more {
				break
			}
		}
	}
	return sums
}

func records(args []string) string {
	earlier := recorded()
	exchange(armed)
	round(number(args[0]))
	exchange(done)
	answer := "records"
	for name, s := range recorded() {
		if e := earlier[name]; strings.HasPrefix(name, "main.make") && s[0] > e[0] {
			answer += fmt.Sprintf(" %s %d %d", name, s[0]-e[0], s[1]-e[1])
		}
	}
	return answer
}

func churn(args []string) string {
	var wg sync.WaitGroup
	for i := 0; i < number(args[0]); i++ {
		wg.Add(1)
		go func() {
			kept.bytes = make([]byte, 64)
			wg.Done()
		}()
		wg.Wait()
	}
	return "churn " + args[0]
}

func sum(args []string) string {
	var wg sync.WaitGroup
	results := make([]uint32, 8)
	for g := range results {
		wg.Add(1)
		go func(g int) {
			defer wg.Done()
			h := uint32(g)
			for i := 0; i < number(args[0]); i++ {
				b := make([]byte, 1+(i*37+g)%3000)
				b[len(b)-1] = byte(i)
				n := &node{value: i, next: &node{value: g}}
				m := map[int]string{i: strconv.Itoa(i * 1000003)}
				for _, c := range m[i] {
					h = h*31 + uint32(c)
				}
				h = h*31 + uint32(b[len(b)-1]) + uint32(n.value) + uint32(n.next.value)
				if i%500 == g*50 {
					runtime.GC()
				}
			}
			results[g] = h
		}(g)
	}
	wg.Wait()
	h := uint32(0)
	for _, r := range results {
		h = h*31 + r
	}
	return fmt.Sprintf("sum %d", h)
}

// made is what a goroutine has allocated by runtime.MemStats.
type made struct{ objects, bytes uint64 }

// The work of the goroutines of sites. Their functions have no arguments, because some releases wrap those that have.
var (
	siteCount int
	siteDone  = make(chan made)
)

// makeCounted calls allocate siteCount times and sends what that has allocated.
func makeCounted(allocate func()) {
	runtime.ReadMemStats(&before)
	runtime.ReadMemStats(&before)
	for i := 0; i < siteCount; i++ {
		allocate()
	}
	runtime.ReadMemStats(&after)
	siteDone <- made{after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

func makeWide()   { makeCounted(func() { kept.bytes = make([]byte, 4096) }) }
func makeNarrow() { makeCounted(func() { kept.bytes = make([]byte, 48) }) }

func rate(args []string) string {
	runtime.MemProfileRate = number(args[0])
	return "rate " + args[0]
}

func sites(args []string) string {
	siteCount = number(args[0])
	go makeWide()
	wide := <-siteDone
	go makeNarrow()
	narrow := <-siteDone
	return fmt.Sprintf("sites %d %d %d %d", wide.objects, wide.bytes, narrow.objects, narrow.bytes)
}
