package goproc_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/ptrace"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestSignalStacks asks again and again for those of a program whose threads come and go: what is known of before makes no
// difference.
func TestSignalStacks(t *testing.T) {
	target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "mixer"}), "2")
	open := func() *goproc.Process {
		p, err := goproc.Open(target.PID(), goproc.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	p := open()
	changes := 0
	var last []ptrace.Interval
	for begin := time.Now(); changes < 10 && time.Since(begin) < time.Minute; {
		fresh := open()
		var got, want []ptrace.Interval
		err := ptrace.Run(context.Background(), target.PID(), ptrace.Options{}, func(*ptrace.Stopped) (err error) {
			if got, err = p.SignalStacks(); err != nil {
				return err
			}
			want, err = fresh.SignalStacks()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Fatalf("%x, want %x", got, want)
		}
		for _, s := range got {
			if s.Lo == 0 || s.Hi <= s.Lo {
				t.Errorf("a stack from %#x to %#x", s.Lo, s.Hi)
			}
		}
		if !slices.Equal(got, last) {
			changes++
		}
		last = got
	}
	if changes < 10 {
		t.Errorf("the threads changed %d times in a minute", changes)
	}
}
