package discover

import (
	"encoding/binary"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestUnavailable wants the reason why the process connector is unavailable, and that processes are found without it.
func TestUnavailable(t *testing.T) {
	inside := os.Getenv("LOUPE_TEST_NAMESPACE") != ""
	if !inside {
		withConnector(t)
	}
	for _, test := range []struct {
		name    string
		command []string
		why     string
	}{
		{"network", []string{"unshare", "--net"}, "process connector: requires the network namespace of the machine (hostNetwork): connection refused"},
		{"processes", []string{"unshare", "--pid", "--fork", "--mount-proc", "--propagation", "unchanged"},
			"process connector: requires the PID namespace of the machine (hostPID)"},
		{"user", []string{"unshare", "--user", "--map-root-user"}, "process connector: requires the user namespace of the machine"},
		{"capability", []string{"setpriv", "--inh-caps=-net_admin", "--bounding-set=-net_admin"}, "process connector: requires CAP_NET_ADMIN: operation not permitted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !inside {
				if status, _, _ := testcmd.Run(t, testcmd.Command(t, "unshare", "--user", "true")); test.name == "user" && status != 0 {
					t.Log("the kernel permits no user namespace here, for example below a chroot")
					return
				}
				runAgain(t, append(test.command, os.Args[0])...)
				return
			}
			f := follow(t, New(Options{NoTracepoints: true}))
			s := f.Stats()
			if s.Source == SourceConnector && test.name == "capability" {
				return // Linux 6.6 and later require none
			}
			if s.Source != SourcePolling || s.Why != test.why+"; tracepoints: disabled" {
				t.Errorf("%q: %q, want %q", s.Source, s.Why, test.why)
			}
		})
	}
	f := follow(t, New(polling(0)))
	if s := f.Stats(); s.Source != SourcePolling || s.Why != "process connector: disabled; tracepoints: disabled" {
		t.Errorf("%+v", s)
	}
}

// TestOverflow scans after notices were lost.
func TestOverflow(t *testing.T) {
	t.Run("connector", func(t *testing.T) {
		w := withConnector(t)
		w.buffer = 1 // the kernel's minimum: two notices
		overflow(t, w, 20)
	})
	t.Run("tracepoints", func(t *testing.T) {
		w := withTracepoints(t)
		w.ring = os.Getpagesize() // 256 notices, and a batch in the Watcher
		overflow(t, w, 250)
	})
}

func overflow(t *testing.T, w *Watcher, others int) {
	path := tiny(t)
	var block atomic.Bool
	blocked := make(chan struct{})
	w.examined = func(int, outcome) {
		if block.Load() {
			<-blocked
		}
	}
	f := follow(t, w)
	block.Store(true)
	var list []*testtarget.Process
	for range 20 {
		list = append(list, testtarget.Start(t, path))
	}
	for range others { // more notices than fit, also without those of others
		testcmd.Run(t, testcmd.Command(t, "true"))
	}
	close(blocked)
	found := map[int]bool{}
	patience := time.After(testcmd.Patience)
	for _, p := range list {
		for !found[p.PID()] {
			select {
			case e := <-f.events:
				f.check(e)
				found[e.Process.PID] = true
			case <-patience:
				t.Fatalf("process %d was not found: %+v", p.PID(), f.Stats())
			}
		}
	}
	if s := f.Stats(); s.Overflows == 0 {
		t.Errorf("%+v", s)
	}
}

// message returns a datagram of the kernel.
func message(what uint32, pid, process int32) []byte {
	b := make([]byte, 76)
	native := binary.NativeEndian
	native.PutUint32(b, 76)
	native.PutUint32(b[netlinkHeader:], cnIdxProc)
	native.PutUint32(b[netlinkHeader+4:], cnValProc)
	native.PutUint32(b[offWhat:], what)
	native.PutUint32(b[offPID:], uint32(pid))
	native.PutUint32(b[offTGID:], uint32(process))
	return b
}

// TestNotices parses datagrams.
func TestNotices(t *testing.T) {
	long := message(whatExec, 7, 7)
	binary.NativeEndian.PutUint32(long, 77)
	short := message(whatExec, 7, 7)
	binary.NativeEndian.PutUint32(short, 20)
	other := message(whatExec, 7, 7)
	other[netlinkHeader] = 9
	for name, test := range map[string]struct {
		b    []byte
		want []notice
	}{
		"exec":          {message(whatExec, 8, 7), []notice{{pid: 7}}},
		"exit":          {message(whatExit, 7, 7), []notice{{pid: 7, exit: true}}},
		"thread":        {message(whatExit, 8, 7), nil},
		"answer":        {message(whatNone, 0, 0), nil},
		"fork":          {message(1, 7, 7), nil},
		"two":           {slices.Concat(message(whatExec, 1, 1), message(whatExit, 2, 2)), []notice{{pid: 1}, {pid: 2, exit: true}}},
		"negative":      {message(whatExec, -7, -7), nil},
		"truncated":     {message(whatExec, 7, 7)[:minSize-1], nil},
		"too long":      {long, nil},
		"too short":     {short, nil},
		"of another":    {other, nil},
		"nothing":       {nil, nil},
		"a second half": {append(message(whatExec, 1, 1), message(whatExit, 2, 2)[:30]...), []notice{{pid: 1}}},
	} {
		if got := appendNotices(nil, test.b); !slices.Equal(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func FuzzNotices(f *testing.F) {
	f.Add(slices.Concat(message(whatExec, 1, 1), message(whatExit, 2, 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, n := range appendNotices(nil, b) {
			if n.pid <= 0 {
				t.Errorf("%+v", n)
			}
		}
		answer(b)
	})
}
