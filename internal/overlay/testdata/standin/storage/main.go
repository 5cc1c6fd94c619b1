// Command storage stores values in goroutines, of themselves and of others, while descriptors of goroutines are reused and the
// garbage collector runs.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/loupe-go/loupe/glti"
)

type payload struct{ check [64]uint64 }

func newPayload(n uint64) *payload {
	p := new(payload)
	for i := range p.check {
		p.check[i] = n
	}
	return p
}

func (p *payload) is(n uint64) bool {
	for _, v := range p.check {
		if v != n {
			return false
		}
	}
	return true
}

type handle struct {
	g    uintptr
	goid uint64
}

func main() {
	var collected atomic.Int64
	handles := make(chan handle, 1<<12)
	stop := make(chan bool)
	var helpers sync.WaitGroup
	helpers.Add(2)
	go func() { // collects garbage
		defer helpers.Done()
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	}()
	go func() { // stores values in goroutines that may have ended
		defer helpers.Done()
		for h := range handles {
			glti.SetLocal(h.g, h.goid, newPayload(h.goid))
			if b := glti.Local(h.g, h.goid); b != nil && !b.Value.(*payload).is(h.goid) {
				fail("other's value", h.goid)
			}
		}
	}()
	const rounds, width = 200, 50
	for r := 0; r < rounds; r++ {
		var wg sync.WaitGroup
		for w := 0; w < width; w++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				g, id := glti.Self()
				handles <- handle{g, id}
				if b := glti.Local(g, id); b != nil && b.Goid != id {
					fail("value of an earlier goroutine", b.Goid)
				}
				p := newPayload(id)
				runtime.SetFinalizer(p, func(*payload) { collected.Add(1) })
				b := glti.SetLocal(g, id, p)
				if b == nil {
					fail("not stored", id)
				}
				p = nil
				runtime.Gosched()
				if b = glti.Local(g, id); b == nil || b.Goid != id || !b.Value.(*payload).is(id) {
					fail("lost", id)
				}
			}()
		}
		wg.Wait()
	}
	close(stop)
	close(handles)
	helpers.Wait()
	// What ended goroutines had is garbage.
	for i := 0; i < 100 && collected.Load() < rounds*width/2; i++ {
		runtime.GC()
		runtime.Gosched()
	}
	if n := collected.Load(); n < rounds*width/2 {
		fail("not collected: only", uint64(n))
	}
	fmt.Println("ok", collected.Load() <= rounds*width)
}

func fail(what string, value uint64) {
	fmt.Println("wrong:", what, value)
	os.Exit(1)
}
