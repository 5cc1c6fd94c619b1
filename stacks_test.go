package loupe_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestStacks observes a program whose call chains spell words: a stack that lacks a frame, or has one too many, spells none.
//
// One case is let pass, once in a while: a goroutine that is interrupted within the few instructions in which a function
// makes or removes its frame. The caller is then neither where the frame pointer leads nor on top of the stack.
func TestStacks(t *testing.T) {
	for _, version := range testtarget.Ends(t, testtarget.Versions()) {
		t.Run("go"+version, func(t *testing.T) {
			p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "coder", Go: version}))
			s, err := attachTo(context.Background(), loupe.PID(p.PID()), loupe.Options{StackDepth: loupe.MaxStackDepth})
			if err != nil {
				t.Fatal(err)
			}
			// Before Go 1.14, a goroutine that yields waits long for others that wake each other.
			const least, most = 300 * time.Millisecond, 20 * time.Second
			end := sync.OnceFunc(func() { go s.Close() })
			time.AfterFunc(most, end)
			begin := time.Now()
			checked, wrong, interrupted, stopped := map[event.Kind]int{}, map[event.Kind]int{}, 0, map[string]int{}
			for ev := range s.Events() {
				if len(stopped) > 0 && checked[event.GoBlock] >= 100 && time.Since(begin) > least {
					end()
				}
				if ev.Stack == nil || ev.Kind == event.GoStatus {
					continue
				}
				var funcs []string
				for _, f := range ev.Stack.Frames {
					funcs = append(funcs, f.Func)
				}
				if ev.Reason == event.StopGosched && slices.Contains(funcs, "main.(*worker).speak") {
					// Without its innermost frames a word looks like the begin of one.
					if stopped[funcs[0]]++; funcs[0] != "runtime.Gosched" {
						t.Errorf("stopped by runtime.Gosched: %v", funcs)
					}
				}
				_, ok, applies := testtarget.CheckCodeWord(funcs)
				if !applies {
					continue
				}
				checked[ev.Kind]++
				if !ok && ev.Reason == event.StopPreempted {
					if interrupted++; interrupted <= checked[ev.Kind]/10+2 {
						continue
					}
				}
				if !ok {
					if wrong[ev.Kind]++; wrong[ev.Kind] <= 3 {
						t.Logf("%v %s: %v", ev.Kind, ev.Reason, funcs)
					}
				}
			}
			t.Logf("checked %v, wrong %v", checked, wrong)
			if checked[event.GoBlock] < 100 {
				t.Errorf("only %v stacks checked", checked)
			}
			if len(stopped) == 0 {
				t.Error("no goroutine stopped by runtime.Gosched")
			}
			if len(wrong) > 0 {
				t.Errorf("of %v stacks %v are wrong", checked, wrong)
			}
		})
	}
}
