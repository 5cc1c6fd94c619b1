package goproc

import (
	"errors"
	"os"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestIdentify compares the identities of processes.
func TestIdentify(t *testing.T) {
	own, err := Identify(os.Getpid())
	if again, err2 := Identify(os.Getpid()); err != nil || err2 != nil || own != again || own.PID != os.Getpid() {
		t.Errorf("%+v, then %+v: %v, %v", own, again, err, err2)
	}
	p := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "tiny"}))
	id, err := Identify(p.PID())
	if err != nil || id.started < own.started || id == own {
		t.Errorf("%+v started before %+v: %v", id, own, err)
	}
	p.Stop()
	if id, err := Identify(p.PID()); !errors.Is(err, ErrNoProcess) {
		t.Errorf("%+v, %v of a process that has ended", id, err)
	}
}
