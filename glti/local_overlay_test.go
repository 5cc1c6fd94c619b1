//go:build loupe_glti

package glti

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var heirs = flag.Int("glti.heirs", 100_000, "how many goroutines inherit storage in TestPatchedInheritMany")

// in runs a function in a goroutine that the current one creates, and waits for it.
func in(f func(g interface{})) {
	done := make(chan bool)
	go func() {
		defer close(done)
		f(impl.current())
	}()
	<-done
}

func TestPatchedInherit(t *testing.T) {
	env, other := patchedEnv(t), patchedEnv(t)
	env.InheritGls(true)
	expect := func(where string, g, obj interface{}, ptr uintptr) {
		t.Helper()
		if got, gotPtr := env.GetGls(g), env.GetGlsPtr(g); got != obj || gotPtr != ptr {
			t.Errorf("%s: %v and %d, expected %v and %d", where, got, gotPtr, obj, ptr)
		}
		if got := other.GetGls(g); where != "parent" && got != nil {
			t.Errorf("%s: %v of an agent that does not inherit", where, got)
		}
	}
	in(func(parent interface{}) {
		in(func(g interface{}) { expect("child before", g, nil, 0) })
		env.SetGls(parent, "parent")
		env.SetGlsPtr(parent, 7)
		other.SetGls(parent, "other")
		begin, changed := make(chan bool), make(chan bool)
		go func() {
			child := impl.current()
			<-begin // the parent has other values then
			expect("child", child, "parent", 7)
			in(func(g interface{}) { expect("grandchild", g, "parent", 7) })
			env.SetGls(child, "child")
			expect("child with its own", child, "child", 7)
			in(func(g interface{}) { expect("grandchild of a child with its own", g, "child", 7) })
			env.SetGls(child, nil)
			in(func(g interface{}) { expect("grandchild without object", g, nil, 7) })
			env.SetGlsPtr(child, 0)
			in(func(g interface{}) { expect("grandchild without all", g, nil, 0) })
			close(changed)
		}()
		env.SetGls(parent, "later")
		close(begin)
		<-changed
		expect("parent", parent, "later", 7)
		in(func(g interface{}) { expect("second child", g, "later", 7) })
		env.InheritGls(false)
		in(func(g interface{}) { expect("child of what was stored before", g, "later", 7) })
		env.SetGls(parent, "own")
		in(func(g interface{}) { expect("child of one that does not inherit", g, nil, 0) })
	})
}

// TestPatchedInheritNot checks goroutines that inherit nothing.
func TestPatchedInheritNot(t *testing.T) {
	env := patchedEnv(t)
	env.InheritGls(true)
	var inherited sync.Map
	check := func(where string) {
		if obj := env.GetGls(impl.current()); obj != nil {
			inherited.Store(where, obj)
		}
	}
	if err := env.Profiler.RegisterPprofGoroutineProfileHandler(1, func([]StackRecord) { check("handler of a profile") }); err != nil {
		t.Fatal(err)
	}
	ran := make(chan bool, 3)
	in(func(g interface{}) {
		env.SetGls(g, "object")
		r, err := env.Trace.Handle(EvGoCreate, func(Record) {
			go func() { check("goroutine of a callback"); ran <- true }()
		})
		if err != nil {
			t.Error(err)
		}
		in(func(g interface{}) {
			if env.GetGls(g) != "object" {
				t.Error("not inherited")
			}
		})
		r.Unregister()
		<-ran
		time.AfterFunc(time.Microsecond, func() { check("timer"); ran <- true })
		<-ran
		runtime.SetFinalizer(new([16]int), func(*[16]int) { check("finalizer"); ran <- true })
		for done := false; !done; {
			runtime.GC()
			select {
			case <-ran:
				done = true
			case <-time.After(time.Millisecond):
			}
		}
		if err := env.Profiler.RegisterPprofHeapProfileHandler(1<<20, func([]MemProfileRecord) { check("handler of a profile that inherited") }); err != nil {
			t.Error(err)
		}
		env.Profiler.Snapshot()
	})
	inherited.Range(func(where, obj any) bool {
		t.Errorf("%s has %v", where, obj)
		return true
	})
}

// TestPatchedInheritEnd checks that objects live as long as a goroutine has them.
func TestPatchedInheritEnd(t *testing.T) {
	env := patchedEnv(t)
	env.InheritGls(true)
	var collected atomic.Bool
	end, child := make(chan bool), make(chan interface{})
	in(func(g interface{}) {
		obj := new([100]int)
		runtime.SetFinalizer(obj, func(*[100]int) { collected.Store(true) })
		env.SetGls(g, obj)
		go func() {
			child <- impl.current()
			<-end
		}()
	})
	g := <-child
	for i := 0; i < 5; i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if obj, ok := env.GetGls(g).(*[100]int); !ok || obj == nil || collected.Load() {
		t.Error("the object of a goroutine that has inherited it is gone")
	}
	close(end)
	for i := 0; i < 5000 && !collected.Load(); i++ {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if !collected.Load() || env.GetGls(g) != nil {
		t.Errorf("collected after the end: %t, object %v", collected.Load(), env.GetGls(g))
	}
}

// TestPatchedInheritMany checks that goroutines that have ended leave nothing, while others store values for them.
func TestPatchedInheritMany(t *testing.T) {
	env := patchedEnv(t)
	env.InheritGls(true)
	before := heapInUse()
	in(func(g interface{}) {
		env.SetGls(g, new([1000]byte))
		var wrong atomic.Int64
		for n := 0; n < *heirs; n += 1000 {
			var wg sync.WaitGroup
			for i := 0; i < 1000; i++ {
				i := i
				wg.Add(1)
				go func() {
					defer wg.Done()
					self := impl.current()
					if _, ok := env.GetGls(self).(*[1000]byte); !ok {
						wrong.Add(1)
					}
					if i%10 == 0 {
						env.SetGls(self, new([100]byte))
						in(func(g interface{}) {
							if _, ok := env.GetGls(g).(*[100]byte); !ok {
								wrong.Add(1)
							}
							env.SetGls(self, nil)
						})
					}
				}()
			}
			wg.Wait()
		}
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d goroutines have inherited something else", n)
		}
	})
	if after := heapInUse(); after > before+4<<20 {
		t.Errorf("%d bytes in use before, %d after", before, after)
	}
}

func heapInUse() uint64 {
	var stats runtime.MemStats
	for i := 0; i < 3; i++ {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestPatchedGlsOfClosed checks that an agent does not see what another one has stored that had its slot before.
func TestPatchedGlsOfClosed(t *testing.T) {
	first := NewEnv("first")
	g := first.GetG()
	first.SetGls(g, "first")
	first.SetGlsPtr(g, 1)
	first.Close()
	second := patchedEnv(t)
	if second.agent().slot != first.agent().slot {
		t.Fatalf("slots %d and %d", first.agent().slot, second.agent().slot)
	}
	if obj, ptr := second.GetGls(g), second.GetGlsPtr(g); obj != nil || ptr != 0 {
		t.Errorf("%v and %d are of another agent", obj, ptr)
	}
	second.SetGlsPtr(g, 2)
	if obj, ptr := second.GetGls(g), second.GetGlsPtr(g); obj != nil || ptr != 2 {
		t.Errorf("%v and %d", obj, ptr)
	}
}
