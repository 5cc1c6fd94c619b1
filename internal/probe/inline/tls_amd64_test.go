package inline

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/gobin"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// TestRealGoroutine hits a probe with this process's own goroutine, which is found as in releases before Go 1.17: in
// thread-local storage.
func TestRealGoroutine(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	w := newWorld(t, func(o *Options) {
		c := &o.Config
		c.StackDepth, c.Procs = 0, 0
		c.G_tls = ownTLS(t)
		for path, to := range map[string]*uint32{
			"runtime.g.goid": &c.G_goid, "runtime.g.m": &c.G_m, "runtime.m.p": &c.M_p, "runtime.p.id": &c.P_id, "runtime.m.procid": &c.M_procid,
		} {
			*to = ownOffset(t, path)
		}
	})
	th := w.thread(0, 0, 0)
	th.setG(0xdead)
	th.hit(w.body(Place{Probe: csrc.ProbesLoupeProbePROBE_exitsyscall, G: csrc.NoRegister}))
	events, _ := w.events()
	if len(events) != 1 || events[0].G != ownID(t) || events[0].Tid != uint32(unix.Gettid()) {
		t.Errorf("%+v, want goroutine %d, thread %d", events, ownID(t), unix.Gettid())
	}
}

// own opens this program's executable.
func own(t *testing.T) *gobin.Binary {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := gobin.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bin.Close() })
	return bin
}

// ownTLS returns where this program keeps the current g.
func ownTLS(t *testing.T) int32 {
	if off, ok := own(t).TLSOffset(); ok {
		return int32(off)
	}
	return -8
}

// ownOffset returns the offset of a field in this program's runtime.
func ownOffset(t *testing.T, path string) uint32 {
	t.Helper()
	off, err := own(t).Layout().Offset(path)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(off)
}

// ownID returns the ID of this goroutine, from its traceback.
func ownID(t *testing.T) uint64 {
	t.Helper()
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	id, err := strconv.ParseUint(strings.Fields(string(buf))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
