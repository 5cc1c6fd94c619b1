package gostate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// TestOnlyList looks for other lists of the wait reasons of locks. Packages of the trace format translate all reasons, and
// test programs and package tracetruth have their own truth.
func TestOnlyList(t *testing.T) {
	others := []string{"gostate", "tracetruth", "exporttest", "testdata"}
	locks := map[string]bool{}
	for reason, class := range waits {
		if class == WaitLock || class == WaitSemaphore {
			locks[strconv.Quote(reason)] = true
		}
	}
	files := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(others, entry.Name()) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && locks[lit.Value] {
				t.Errorf("%v: %s is also in package gostate", set.Position(lit.Pos()), lit.Value)
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}
