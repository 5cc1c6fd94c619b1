package serve

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestNotifySystemd plays systemd, which receives datagrams.
func TestNotifySystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "2000")
	var ill atomic.Bool
	asked := make(chan bool)
	alive := func() error {
		asked <- true
		if ill.Load() {
			return errors.New("a loop does not turn")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- NotifySystemd(ctx, alive) }()
	receive := func() string {
		t.Helper()
		b := make([]byte, 100)
		n, err := socket.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	if got := receive(); got != "READY=1" {
		t.Errorf("%q at the start", got)
	}
	for range 3 {
		<-asked
		if got := receive(); got != "WATCHDOG=1" {
			t.Errorf("%q while the agent works", got)
		}
	}
	ill.Store(true)
	for range 3 {
		<-asked
	}
	cancel()
	select {
	case err = <-ended:
	case <-asked: // once more at the same time
		err = <-ended
	}
	if err != nil {
		t.Error(err)
	}
	if got := receive(); got != "STOPPING=1" {
		t.Errorf("%q at the end; what comes before it was sent while the agent did not work", got)
	}
}

// TestNoWatchdog checks a unit without a watchdog, and a process that systemd did not start.
func TestNoWatchdog(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := NotifySystemd(t.Context(), nil); err != nil {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NotifySystemd(ctx, nil); err != nil {
		t.Error(err)
	}
	b := make([]byte, 100)
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if n, err := socket.Read(b); err != nil || string(b[:n]) != want {
			t.Errorf("%q, %v; want %s", b[:n], err, want)
		}
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if err := NotifySystemd(ctx, nil); err == nil {
		t.Error("no error without a socket")
	}
}
