package uprobe

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// controlPage is the memory through which this process controls the programs (struct loupe_control).
type controlPage struct {
	page []byte
	c    *csrc.Control
}

func newControlPage(m *ebpf.Map) (*controlPage, error) {
	page, err := unix.Mmap(m.FD(), 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the probes' control page: %w", err)
	}
	return &controlPage{page: page, c: (*csrc.Control)(unsafe.Pointer(unsafe.SliceData(page)))}, nil
}

// enable enables or disables the probes.
func (p *controlPage) enable(on bool) {
	var v uint32
	if on {
		v = 1
	}
	atomic.StoreUint32(&p.c.Enabled, v)
}

// sleep requests a wake-up by the next record, or cancels the request.
func (p *controlPage) sleep(on bool) {
	var v uint32
	if on {
		v = 1
	}
	atomic.StoreUint32(&p.c.Waits, v)
}

func (p *controlPage) lost() uint32 { return atomic.LoadUint32(&p.c.Lost) }

// newEpoch is called only by the reader.
func (p *controlPage) newEpoch() { p.c.Epoch++ }

func (p *controlPage) close() error { return unix.Munmap(p.page) }

// filterPages is the memory with the numbers of large IDs that the filter lists (struct loupe_filter).
type filterPages struct {
	pages []byte
	f     *csrc.Filter
}

func newFilterPages(m *ebpf.Map) (*filterPages, error) {
	pages, err := unix.Mmap(m.FD(), 0, int(unsafe.Sizeof(csrc.Filter{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the probes' filter: %w", err)
	}
	return &filterPages{pages: pages, f: (*csrc.Filter)(unsafe.Pointer(unsafe.SliceData(pages)))}, nil
}

func (p *filterPages) close() error { return unix.Munmap(p.pages) }
