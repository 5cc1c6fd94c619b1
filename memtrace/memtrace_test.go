package memtrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	sink    any
	sinkB   []byte
	sinkP   *int64
	sinkS   string
	sinkM   map[int]int
	sinkF   func() int
	sinkI   []int
	sinkPP  []*int64
	sink100 [100]any
)

func TestMain(m *testing.M) {
	if os.Getenv(inProcess) != "TestNothingLeft" {
		if err := Supported(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// noGC keeps the garbage collector from running until the test ends: an allocation that starts it, or waits for it, makes the
// runtime allocate on the same goroutine.
func noGC(t *testing.T) {
	t.Helper()
	old := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(old) })
	runtime.GC() // ends a collection that is in progress
	// The world may still be stopped for the end of that collection. ReadMemStats waits until it has been started again.
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
}

// plain converts a context without an allocation. In the conversion of one interface type to another, the runtime looks up the
// methods. About once in a thousand times it then allocates a cache for that place of the program (runtime.typeAssert), which
// counts.
func plain(ctx Context) context.Context { return ctx.(*trace) }

// used traces f.
func used(t *testing.T, f func(ctx Context)) usage {
	t.Helper()
	var u usage
	err := Trace(context.Background(), func(ctx Context) {
		f(ctx)
		u.bytes, u.objects, u.calls = ctx.Used()
		u.elements = ctx.Elements()
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestExact compares counts with what is known about single allocations.
func TestExact(t *testing.T) {
	noGC(t)
	n := 100
	for _, c := range []struct {
		name string
		f    func()
		want usage
	}{
		{"nothing", func() {}, usage{}},
		{"new", func() { sinkP = new(int64) }, usage{8, 1, 1, 1}},
		{"new with pointers", func() { sink = new([3]*int) }, usage{24, 1, 1, 1}},
		{"make", func() { sinkI = make([]int, n) }, usage{896, 1, 1, 100}},
		{"make in a class of its own", func() { sinkI = make([]int, 13*n/100) }, usage{112, 1, 1, 13}},
		{"large", func() { sinkI = make([]int, 50*n) }, usage{40960, 1, 1, 5000}},
		{"with header", func() { sinkPP = make([]*int64, n) }, usage{896, 1, 1, 100}},
		{"with header, next class", func() { sinkPP = make([]*int64, n+12) }, usage{1024, 1, 1, 112}},
		{"at the limit of small objects", func() { sinkB = make([]byte, 32768-n+92) }, usage{32768, 1, 1, 32760}},
		{"zero size", func() { sink = new(struct{}); sinkI = make([]int, n-100) }, usage{}},
		{"string", func() { sinkS = strings.Repeat("x", n) }, usage{112, 1, 1, 112}},
		{"interface", func() { sink = [4]int{n} }, usage{32, 1, 1, 1}},
		{"closure", func() { m := n; sinkF = func() int { return m } }, usage{16, 1, 1, 1}},
		{"append", func() {
			var s []int64
			for range 5 { // room for 1, 2, 4, 8
				s = append(s, 1)
			}
			sink = s
		}, usage{8 + 16 + 32 + 64 + 24, 5, 5, 5}},
		{"many", func() {
			for i := range sink100 {
				sink100[i] = new([64]byte)
			}
		}, usage{6400, 100, 100, 100}},
	} {
		got := used(t, func(Context) { c.f() })
		if c.name == "string" {
			got.elements, c.want.elements = 0, 0
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestMemStats compares counts with the runtime's, of code that makes objects of all kinds but tiny ones.
func TestMemStats(t *testing.T) {
	noGC(t)
	type node struct {
		left, right *node
		name        string
	}
	var build func(depth int) *node
	build = func(depth int) *node {
		if depth == 0 {
			return &node{}
		}
		return &node{build(depth - 1), build(depth - 1), strings.Repeat("n", 20+depth)}
	}
	for name, f := range map[string]func(){
		"trees": func() { sink = build(10) },
		"maps": func() {
			sinkM = map[int]int{}
			for i := range 10_000 {
				sinkM[i] = i
			}
		},
		"strings": func() {
			for i := range 1000 {
				sinkS = strings.Repeat("0123456789abcdef", i+1)
			}
		},
		"buffers": func() {
			for i := 16; i < 200_000; i += i/7 + 1 {
				sinkB = make([]byte, i)
			}
		},
		"pointers": func() {
			for i := 2; i < 50_000; i += i/7 + 1 {
				sinkPP = make([]*int64, i)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Other goroutines may allocate, but not always.
			for try := 0; ; try++ {
				var before, after runtime.MemStats
				got := used(t, func(Context) {
					runtime.ReadMemStats(&before)
					f()
					runtime.ReadMemStats(&after)
				})
				bytes, objects := int64(after.TotalAlloc-before.TotalAlloc), int64(after.Mallocs-before.Mallocs)
				if objects < 10 {
					t.Fatalf("only %d objects", objects)
				}
				if got.bytes == bytes && got.objects == objects {
					return
				}
				if got.bytes > bytes || got.objects > objects || try == 20 {
					t.Fatalf("%d bytes in %d objects, MemStats say %d in %d", got.bytes, got.objects, bytes, objects)
				}
			}
		})
	}
}

// TestAllocsPerRun compares counts with those of package testing.
func TestAllocsPerRun(t *testing.T) {
	for name, f := range map[string]func(){
		"text":  func() { sinkS = strconv.Quote(strings.Join([]string{"a", "b", "c\n"}, " ")) },
		"map":   func() { m := map[string]int{}; m["a"], m["b"] = 1, 2; sink = m },
		"bytes": func() { sinkB = append([]byte(nil), "hello, world"...) },
		"tiny":  func() { sink = new(int8); sinkP = new(int64) },
	} {
		want := int64(100 * testing.AllocsPerRun(100, f))
		for try := 0; ; try++ { // the runtime may need an object of its own
			got := used(t, func(Context) {
				for range 100 {
					f()
				}
			})
			if got.objects == want {
				break
			}
			if got.objects < want || try == 20 {
				t.Fatalf("%s: %d objects in 100 runs, want %d", name, got.objects, want)
			}
		}
	}
}

func TestNested(t *testing.T) {
	noGC(t)
	outer := used(t, func(ctx Context) {
		sink = new([64]byte)
		for _, parent := range []context.Context{plain(ctx), context.Background()} {
			err := Trace(parent, func(inner Context) {
				sink = new([128]byte)
				if b, o, c := inner.Used(); b != 128 || o != 1 || c != 1 {
					t.Errorf("inner trace: %d, %d, %d", b, o, c)
				}
				if err := Trace(plain(ctx), func(third Context) { sink = new([256]byte) }); err != nil {
					t.Error(err)
				}
				if b, o, c := inner.Used(); b != 384 || o != 2 || c != 2 {
					t.Errorf("inner trace, later: %d, %d, %d", b, o, c)
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
		sink = new([64]byte)
	})
	if outer.bytes != 2*64+2*384 || outer.objects != 6 {
		t.Errorf("outer trace: %+v", outer)
	}
}

func TestGo(t *testing.T) {
	const n = 1000
	used(t, func(ctx Context) {
		var wg sync.WaitGroup
		wg.Add(n)
		kept := make([][]*[64]byte, n)
		base, _, _ := ctx.Used()
		for i := range kept {
			Go(ctx, func() {
				defer wg.Done()
				for range 10 {
					kept[i] = append(kept[i][:0:0], new([64]byte))
				}
			})
		}
		wg.Wait()
		now, _, _ := ctx.Used()
		if now-base < n*10*(64+8) {
			t.Errorf("%d bytes of goroutines, want at least %d", now-base, n*10*(64+8))
		}
	})
	if _, ok := FromContext(context.Background()); ok {
		t.Error("a trace in the background context")
	}
}

// TestLimits checks that each limit is passed by the allocation that exceeds it, and what the context says then.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		option Option
		kind   error
		limit  int64
		used   func(bytes, objects, calls int64) int64
	}{
		{WithLimitBytes(KiB), ErrLimitBytes, KiB, func(b, _, _ int64) int64 { return b }},
		{WithLimitBytes(0), ErrLimitBytes, 0, func(b, _, _ int64) int64 { return b }},
		{WithLimitObjects(25), ErrLimitObjects, 25, func(_, o, _ int64) int64 { return o }},
		{WithLimitCalls(27), ErrLimitCalls, 27, func(_, _, c int64) int64 { return c }},
	} {
		err := Trace(context.Background(), func(ctx Context) {
			earlier := ctx.Done()
			for {
				before := c.used(ctx.Used())
				sink = new([64]byte)
				err := ctx.Err()
				now := c.used(ctx.Used())
				if (err != nil) != (now > c.limit) || before > c.limit {
					t.Errorf("%v: %v after %d, before %d", c.kind, err, now, before)
					return
				}
				if err != nil {
					<-earlier
					checkLimit(t, ctx, err, c.kind)
					return
				}
			}
		}, c.option)
		if err != nil {
			t.Error(err)
		}
	}
}

func checkLimit(t *testing.T, ctx Context, err, kind error) {
	t.Helper()
	var limit *LimitError
	if !errors.Is(err, ErrLimit) || !errors.Is(err, kind) || !errors.Is(err, context.Canceled) || !errors.As(err, &limit) {
		t.Errorf("unexpected error %v", err)
	}
	for _, other := range kindErrors {
		if other != kind && errors.Is(err, other) {
			t.Errorf("error %v is %v", err, other)
		}
	}
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, c := range []context.Context{ctx, derived} {
		if context.Cause(c) != err {
			t.Errorf("cause %v of error %v", context.Cause(c), err)
		}
	}
	if derived.Err() == nil || ctx.Err() != err {
		t.Errorf("derived context: %v; error is now %v", derived.Err(), ctx.Err())
	}
}

// TestDoneWakes checks that a goroutine that waits for a context is woken, although the traced one never asks.
func TestDoneWakes(t *testing.T) {
	err := Trace(context.Background(), func(ctx Context) {
		woken := make(chan error)
		done := ctx.Done()
		go func() {
			<-done
			woken <- context.Cause(ctx)
		}()
		for range 100 {
			sink = new([64]byte)
		}
		if err := <-woken; !errors.Is(err, ErrLimitBytes) {
			t.Error(err)
		}
	}, WithLimitBytes(KiB))
	if err != nil {
		t.Error(err)
	}
}

func TestInvalidLimit(t *testing.T) {
	for _, o := range []Option{WithLimitBytes(-1), WithLimitObjects(-1 << 63), WithLimitCalls(-5)} {
		called := false
		err := Trace(context.Background(), func(Context) { called = true }, o)
		if err == nil || called || errors.Is(err, ErrUnsupported) {
			t.Error(err, called)
		}
	}
	if err := Trace(context.Background(), func(ctx Context) {
		ctx.Add(maxLimit, maxLimit, maxLimit)
		ctx.Add(maxLimit, 1, 1)
		sink = new([64]byte)
		if b, o, c := ctx.Used(); b != maxLimit || o != maxLimit || c != maxLimit {
			t.Errorf("%d, %d, %d", b, o, c)
		}
		if ctx.Err() != nil {
			t.Error(ctx.Err())
		}
	}, WithLimitBytes(maxLimit)); err != nil {
		t.Error(err)
	}
}

func TestAfterEnd(t *testing.T) {
	noGC(t)
	var kept Context
	if err := Trace(context.Background(), func(ctx Context) {
		kept = ctx
		sink = new([64]byte)
		ctx.Add(1000, 2, 3)
	}, WithLimitBytes(10_000)); err != nil {
		t.Fatal(err)
	}
	sink = new([64]byte)
	kept.Add(1, 1, 1)
	if b, o, c := kept.Used(); b != 1064 || o != 3 || c != 4 {
		t.Errorf("%d, %d, %d", b, o, c)
	}
	if err := kept.Err(); err != context.Canceled {
		t.Error(err)
	}
	// A trace in the context of one that has ended does not count into it.
	if err := Trace(kept, func(ctx Context) {
		sink = new([64]byte)
		if b, _, _ := ctx.Used(); b != 64 {
			t.Error(b)
		}
	}); err != nil {
		t.Error(err)
	}
}

func TestPanic(t *testing.T) {
	u := used(t, func(ctx Context) {
		func() {
			defer func() { recover() }()
			Trace(ctx, func(Context) { sink = new([64]byte); panic(nil) })
		}()
		sink = new([64]byte)
	})
	if u.bytes < 128 {
		t.Errorf("%+v", u)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Trace(context.Background(), func(Context) { runtime.Goexit() })
	}()
	<-done
	var g uintptr
	Trace(context.Background(), func(Context) { g = getg() })
	if g == 0 || newestVersion().find(g) != nil {
		t.Error("a goroutine is still in the table")
	}
}

func TestCanceledOutside(t *testing.T) {
	outside, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("outside")
	if err := Trace(outside, func(ctx Context) {
		cancel(cause)
		<-ctx.Done()
		sink = new([64]byte)
		if ctx.Err() != context.Canceled || context.Cause(ctx) != cause {
			t.Error(ctx.Err(), context.Cause(ctx))
		}
	}, WithLimitBytes(0)); err != nil {
		t.Error(err)
	}
}
