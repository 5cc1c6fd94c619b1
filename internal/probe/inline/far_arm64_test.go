package inline

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapFar maps memory for bodies at a distance from some code, above it or below, whichever is free.
func mapFar(t *testing.T, code, far uint64) unsafe.Pointer {
	t.Helper()
	var first error
	for _, at := range []uint64{code + far, code - far} {
		p, err := unix.MmapPtr(-1, 0, unsafe.Add(unsafe.Pointer(nil), uintptr(at)&^0xffff), roomForBodies,
			unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_FIXED_NOREPLACE)
		if err == nil {
			return p
		}
		if first == nil {
			first = err
		}
	}
	t.Fatal(first)
	return nil
}

// TestFarBody puts a body so far away that the probe is not reached by a distance.
func TestFarBody(t *testing.T) {
	w := newWorld(t, nil)
	th := w.thread(7, 1234, 1)
	for _, far := range []uint64{1 << 28, 1 << 30, 3 << 30} {
		p := mapFar(t, w.code, far)
		w.bodies = uint64(uintptr(p))
		th.hit(w.probe(gopark))
		if err := unix.MunmapPtr(p, roomForBodies); err != nil {
			t.Fatal(err)
		}
		if e, _ := w.events(); len(e) != 1 || e[0].G != 7 {
			t.Errorf("at a distance of %#x: %+v", far, e)
		}
		for r := range th.r.In {
			if r < registers && !scratch[r] && th.r.In[r] != th.r.Out[r] {
				t.Errorf("register %d was %#x, is %#x", r, th.r.In[r], th.r.Out[r])
			}
		}
	}
}
