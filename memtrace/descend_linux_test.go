package memtrace

import (
	"context"
	"errors"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tree is a tree of goroutines. Each allocates an object and starts others.
type tree struct {
	branches int
	running  atomic.Int64
	waiting  atomic.Int64
	release  chan struct{} // goroutines wait for it to be closed, unless it is nil
}

const (
	nodeBytes    = 64
	closureBytes = 24 // what go t.grow(depth) allocates
)

// nodes returns the number of goroutines of a tree.
func (t *tree) nodes(depth int) int64 {
	n, level := int64(1), int64(1)
	for range depth {
		level *= int64(t.branches)
		n += level
	}
	return n
}

// grow runs in each goroutine.
func (t *tree) grow(depth int) {
	defer t.running.Add(-1)
	keepMade(new([nodeBytes]byte))
	if depth > 0 {
		for range t.branches {
			t.running.Add(1)
			go t.grow(depth - 1)
		}
	}
	if t.release != nil {
		t.waiting.Add(1)
		<-t.release
	}
}

// wait waits for all goroutines of a tree, without an allocation.
func (t *tree) wait() {
	for t.running.Load() > 0 {
		runtime.Gosched()
	}
}

// start starts a tree, whose root is a goroutine of its own.
func (t *tree) start(depth int) {
	t.running.Add(1)
	go t.grow(depth)
}

func (t *tree) want(depth int) usage {
	n := t.nodes(depth)
	return usage{bytes: n * (nodeBytes + closureBytes), objects: 2 * n, calls: 2 * n, elements: 2 * n}
}

// usedWith traces f with options.
func usedWith(t *testing.T, f func(ctx Context), options ...Option) usage {
	t.Helper()
	var u usage
	err := Trace(context.Background(), func(ctx Context) {
		f(ctx)
		u = usedNow(ctx)
	}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// usedNow returns what a trace has used. The calling goroutine is paused meanwhile: where it waits for a lock, because others
// are just leaving the trace, the runtime may allocate.
func usedNow(ctx Context) usage {
	before := pause()
	defer goroutines.swap(getg(), before)
	bytes, objects, calls := ctx.Used()
	return usage{bytes, objects, calls, ctx.Elements()}
}

// noneLeft checks that all goroutines leave the table.
func noneLeft(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for attached() != 0 {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines are still in the table", attached())
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestDescendants compares the counts of trees of goroutines with what is known.
func TestDescendants(t *testing.T) {
	noGC(t)
	for _, c := range []struct{ branches, depth int }{{1, 0}, {1, 100}, {2, 3}, {3, 7}, {1000, 1}} {
		n := &tree{branches: c.branches}
		got := usedWith(t, func(Context) { n.start(c.depth); n.wait() }, WithDescendants())
		if want := n.want(c.depth); got != want {
			t.Errorf("tree of %d goroutines: %+v, want %+v", n.nodes(c.depth), got, want)
		}
		// Without the option, only the go statement counts.
		got = usedWith(t, func(Context) { n.start(c.depth); n.wait() })
		if want := (usage{closureBytes, 1, 1, 1}); got != want {
			t.Errorf("without descendants: %+v, want %+v", got, want)
		}
	}
	noneLeft(t)
}

// TestManyDescendants has many goroutines of a trace at the same time.
func TestManyDescendants(t *testing.T) {
	noGC(t)
	n := &tree{branches: manyGoroutines - 1, release: make(chan struct{})}
	got := usedWith(t, func(Context) {
		n.start(1)
		for n.waiting.Load() < manyGoroutines {
			runtime.Gosched()
		}
		if got := attached(); got != manyGoroutines+1 {
			t.Errorf("%d goroutines in the table, want %d", got, manyGoroutines+1)
		}
		close(n.release)
		n.wait()
	}, WithDescendants())
	want := n.want(1)
	// To wait, most goroutines need an object of the runtime.
	more, moreBytes := got.objects-want.objects, got.bytes-want.bytes
	if more < 0 || more > manyGoroutines || moreBytes < 80*more || moreBytes > 112*more {
		t.Errorf("%+v, want %+v and at most %d objects more", got, want, manyGoroutines)
	}
	noneLeft(t)
}

// TestDescendantsTorture counts trees of goroutines with deep stacks, some of which panic or call Goexit, while they are
// disturbed.
func TestDescendantsTorture(t *testing.T) {
	disturb(t)
	end := time.Now().Add(3 * time.Second)
	depth := 4
	var workers, traces, exact atomic.Int64
	for range 4 {
		workers.Add(1)
		go func() {
			defer workers.Add(-1)
			for time.Now().Before(end) {
				n := &tortured{}
				err := Trace(context.Background(), func(ctx Context) {
					n.running.Add(1)
					go n.grow(depth)
					for n.running.Load() > 0 {
						runtime.Gosched()
					}
					b, o, _ := ctx.Used()
					started := n.started.Load() // each has made two objects
					// The garbage collector makes the runtime allocate.
					more, moreBytes := o-2*started, b-started*(nodeBytes+closureBytes)
					if more < 0 || more > started || moreBytes < 8*more || moreBytes > 256*more {
						t.Errorf("%d bytes in %d objects of %d goroutines", b, o, started)
					} else if more == 0 {
						exact.Add(1)
					}
				}, WithDescendants(), WithLimitObjects(1<<40))
				if err != nil {
					t.Error(err)
				}
				traces.Add(1)
			}
		}()
	}
	for workers.Load() > 0 {
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d traces, %d with no objects of the runtime", traces.Load(), exact.Load())
	if exact.Load() < traces.Load()/4 {
		t.Error("most traces had objects of the runtime")
	}
	noneLeft(t)
}

type tortured struct{ running, started atomic.Int64 }

func (n *tortured) grow(depth int) {
	defer n.running.Add(-1)
	n.started.Add(1)
	deep(100 * depth)
	if depth > 0 {
		for range 3 {
			n.running.Add(1)
			go n.grow(depth - 1)
		}
	}
	switch depth {
	case 1:
		runtime.Goexit()
	case 2:
		defer func() { recover() }()
		panic("expected")
	}
}

// TestOutlives has goroutines that end after the trace.
func TestOutlives(t *testing.T) {
	release, started, more, ended := make(chan struct{}), make(chan struct{}), make(chan bool), make(chan struct{})
	var inner Context
	outer := usedWith(t, func(ctx Context) {
		err := Trace(ctx, func(ctx Context) {
			inner = ctx
			go func() {
				defer close(ended)
				close(started)
				<-release
				sinkB = make([]byte, 1<<20)
				go func() { sinkB = make([]byte, 1<<21); more <- inherits() }()
				if !<-more {
					t.Error("a goroutine does not inherit the trace that has not ended")
				}
			}()
			<-started
		}, WithDescendants())
		if err != nil {
			t.Error(err)
		}
		close(release)
		<-ended
	}, WithDescendants())
	if b, _, _ := inner.Used(); b > 4096 {
		t.Errorf("%d bytes in the trace that has ended", b)
	}
	if outer.bytes < 3<<20 || outer.bytes > 3<<20+8192 {
		t.Errorf("%d bytes in the trace that has not ended, want some 3 MiB", outer.bytes)
	}
	noneLeft(t)
}

// inherits reports whether the calling goroutine was started as a descendant.
func inherits() bool {
	stack := make([]byte, 4096)
	return strings.Contains(string(stack[:runtime.Stack(stack, false)]), "memtrace.descendant")
}

// TestForgotten checks that goroutines that outlive their trace do not keep its context in memory, and that the goroutines they
// start are like any others.
func TestForgotten(t *testing.T) {
	release, started, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	freed := make(chan struct{})
	func() {
		type key struct{}
		value := new([1024]byte)
		runtime.SetFinalizer(value, func(*[1024]byte) { close(freed) })
		err := Trace(context.WithValue(context.Background(), key{}, value), func(Context) {
			go func() {
				close(started)
				<-release
				defer close(ended)
				result := make(chan bool)
				for range 2 {
					go func() { result <- inherits() }()
					if <-result {
						t.Error("a goroutine inherits a trace that has ended")
					}
				}
			}()
			<-started
		}, WithDescendants(), WithLimitBytes(GiB))
		if err != nil {
			t.Error(err)
		}
	}()
	deadline := time.After(time.Minute)
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-freed:
			collected = true
		case <-deadline:
			t.Fatal("the context of a trace that has ended is still in memory")
		case <-time.After(time.Millisecond):
		}
	}
	close(release)
	<-ended
	noneLeft(t)
}

// TestDescendantsNested has traces with and without descendants around each other.
func TestDescendantsNested(t *testing.T) {
	noGC(t)
	with := WithDescendants()
	without := func(*settings) {}
	one := (&tree{}).want(0)
	own := usage{closureBytes, 1, 1, 1} // what the go statement allocates
	n := &tree{}
	for _, c := range []struct {
		name                 string
		outer, inner         Option
		wantOuter, wantInner usage
	}{
		{"both", with, with, one, one},
		{"outer", with, without, one, own},
		{"inner", without, with, one, one},
		{"none", without, without, own, own},
	} {
		for _, derived := range []bool{true, false} {
			var inner usage
			outer := usedWith(t, func(ctx Context) {
				parent := plain(ctx)
				if !derived {
					parent = context.Background()
				}
				err := Trace(parent, func(ctx Context) {
					n.start(0)
					n.wait()
					inner = usedNow(ctx)
				}, c.inner)
				if err != nil {
					t.Error(err)
				}
			}, c.outer)
			if outer != c.wantOuter || inner != c.wantInner {
				t.Errorf("%s, derived %t: %+v in %+v, want %+v in %+v", c.name, derived, inner, outer, c.wantInner, c.wantOuter)
			}
		}
	}
	noneLeft(t)
}

// TestDescendantsGo starts goroutines by Go in a trace that counts descendants, with its context and without.
func TestDescendantsGo(t *testing.T) {
	noGC(t)
	var other Context
	var inOther int64
	got := usedWith(t, func(ctx Context) {
		n := &tree{}
		f := func() { n.grow(0) }
		for _, c := range []context.Context{ctx, context.Background()} {
			n.running.Add(1)
			Go(c, f)
			n.wait()
		}
		ready, release := make(chan struct{}), make(chan struct{})
		start := func() {
			Trace(context.Background(), func(ctx Context) {
				other = ctx
				close(ready)
				<-release
				inOther, _, _ = ctx.Used()
			})
			n.running.Add(-1)
		}
		n.running.Add(1)
		before := pause() // the goroutine that calls Trace is not a descendant
		go start()
		<-ready
		goroutines.swap(getg(), before)
		base := usedNow(ctx).bytes
		n.running.Add(1)
		Go(plain(other), f)
		for n.running.Load() > 1 {
			runtime.Gosched()
		}
		if now := usedNow(ctx).bytes; now-base != nodeBytes {
			t.Errorf("%d bytes of a goroutine with the context of another trace, want %d", now-base, nodeBytes)
		}
		close(release)
		n.wait()
	}, WithDescendants())
	if inOther < nodeBytes {
		t.Errorf("%d bytes in the other trace, want %d", inOther, nodeBytes)
	}
	if got.bytes < 3*nodeBytes {
		t.Errorf("%+v", got)
	}
	noneLeft(t)
}

// TestDescendantsLimit has goroutines pass the limit of the trace that counts them.
func TestDescendantsLimit(t *testing.T) {
	err := Trace(context.Background(), func(ctx Context) {
		stopped := make(chan error)
		for range 4 {
			go func() {
				for ctx.Err() == nil {
					keepMade(new([64]byte))
				}
				stopped <- ctx.Err()
			}()
		}
		for range 4 {
			if err := <-stopped; !errors.Is(err, ErrLimitObjects) {
				t.Error(err)
			}
		}
		if _, objects, _ := ctx.Used(); objects < 1000 || objects > 1100 {
			t.Errorf("%d objects, limit 1000", objects)
		}
	}, WithDescendants(), WithLimitObjects(1000))
	if err != nil {
		t.Error(err)
	}
	noneLeft(t)
}

// TestNoDescendants checks that goroutines of the runtime, and those that no go statement starts, are as without a trace.
func TestNoDescendants(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	usedWith(t, func(Context) {
		runtime.GOMAXPROCS(procs + 3) // the garbage collector needs more goroutines
		runtime.GC()
		if n := attached(); n != 1 {
			t.Errorf("%d goroutines in the table, want 1", n)
		}
		fired := make(chan bool, 1)
		time.AfterFunc(0, func() { fired <- inherits() })
		if <-fired {
			t.Error("a goroutine of a timer inherits")
		}
		next, stop := iter.Pull(func(yield func(bool) bool) { yield(attached() > 1) })
		if more, _ := next(); more {
			t.Error("an iterator inherits")
		}
		stop()
	}, WithDescendants())
	restoreProcs(procs)
	noneLeft(t)
}

// TestCreatedBy checks what stack traces say of goroutines that inherit.
func TestCreatedBy(t *testing.T) {
	usedWith(t, func(Context) {
		stack := make(chan string)
		go func() {
			b := make([]byte, 4096)
			stack <- string(b[:runtime.Stack(b, false)])
		}()
		if s := <-stack; !strings.Contains(s, "created by github.com/loupe-go/loupe/memtrace.TestCreatedBy") {
			t.Error(s)
		}
	}, WithDescendants())
}

// TestPatchedLater checks that the first trace with descendants patches go statements, and none before.
func TestPatchedLater(t *testing.T) {
	own, out, err := ownProcess(t)
	if !own {
		if err != nil {
			t.Error(err, out)
		}
		return
	}
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	f, err := unpatched.newproc()
	if err != nil {
		t.Fatal(err)
	}
	used(t, func(ctx Context) { Go(ctx, func() {}) })
	if err := unpatched.unchanged(f, exe); err != nil {
		t.Error(err)
	}
	usedWith(t, func(Context) {}, WithDescendants())
	if unpatched.unchanged(f, exe) == nil {
		t.Error("go statements are not patched")
	}
}

// TestPanicEnds checks that a panic in a goroutine that inherits ends the program as usual.
func TestPanicEnds(t *testing.T) {
	own, out, err := ownProcess(t)
	if own {
		usedWith(t, func(Context) {
			go func() { panic("expected") }()
			select {}
		}, WithDescendants())
		return
	}
	if err == nil || !strings.Contains(out, "panic: expected") || !strings.Contains(out, "created by github.com/loupe-go/loupe/memtrace.TestPanicEnds") {
		t.Error(err, out)
	}
}

func BenchmarkGo(b *testing.B) {
	f := func() {}
	run := func(b *testing.B) {
		for range b.N {
			go f()
			runtime.Gosched()
		}
	}
	b.Run("untraced", run)
	for name, options := range map[string][]Option{"traced": nil, "descendants": {WithDescendants()}} {
		b.Run(name, func(b *testing.B) {
			if err := Trace(context.Background(), func(Context) { run(b) }, options...); err != nil {
				b.Fatal(err)
			}
		})
	}
	b.Run("patched, untraced", run)
}
