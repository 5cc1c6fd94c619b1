package csrc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
)

// Types and sizes of lanes.h: the memory that probes in machine code work in.
type (
	Lane      = ProbesLoupeLane
	Shared    = ProbesLoupeShared
	Settings  = ProbesLoupeNative
	WaitEntry = ProbesLoupeWaitEntry
	Context   = ProbesLoupeContext
	Loans     = ProbesLoupeLoans
	Carried   = ProbesLoupeCarried
	Allocated = ProbesLoupeAllocatedEntry
)

// Sizes of lanes.h.
const (
	LaneSpan     = int(ProbesLoupeLaneLimitLOUPE_LANE_SPAN)
	LaneTop      = int(ProbesLoupeLaneLimitLOUPE_LANE_TOP)
	StackUse     = int(ProbesLoupeLaneLimitLOUPE_STACK_USE)
	Times        = int(ProbesLoupeLaneLimitLOUPE_TIMES)
	ContextScope = 1 // as in native.h

	// CarriedEntries is the number of entries of the ring of Carried.
	CarriedEntries = int(ProbesLoupeLaneLimitLOUPE_CARRIED)

	// LoansSize is the number of bytes of Loans, the head of which is a Loans.
	LoansSize = int(ProbesLoupeLoanLimitLOUPE_LOANS_HEAD + ProbesLoupeLoanLimitLOUPE_LARGE_LOANS*ProbesLoupeLoanLimitLOUPE_LARGE_LOAN +
		ProbesLoupeLoanLimitLOUPE_SMALL_LOANS*ProbesLoupeLoanLimitLOUPE_SMALL_LOAN)
	TableWindow = int(ProbesLoupeLaneLimitLOUPE_WINDOW_ENTRIES)

	// NoArenas says that the heap of a program stays unknown (Shared.Arenas).
	NoArenas  = uint64(ProbesLoupeLaneLimitLOUPE_NO_ARENAS)
	MaxProbes = int(ProbesLoupeLimitLOUPE_MAX_PROBES) // of all sets together
)

// Code is the C half of a set of probes, compiled. Package flatten makes it.
type Code struct {
	Probes   []string // the names of the probes, by their numbers
	Settings []string // the names of the set's own settings, by their numbers
	Tables   []string // the names of the set's tables, by their numbers
	EBPF     func() (*ebpf.CollectionSpec, error)

	AMD64, ARM64 Native
}

// Native returns the probes as machine code for an architecture, by its Go name. ok is false if there is none.
func (c *Code) Native(goarch string) (n Native, ok bool) {
	switch goarch {
	case "amd64":
		n = c.AMD64
	case "arm64":
		n = c.ARM64
	default:
		return Native{}, false
	}
	n.Code = slices.Clone(n.Code)
	return n, true
}

// Objects returns a function that reads the eBPF object for this machine.
func Objects(amd64, arm64 []byte) func() (*ebpf.CollectionSpec, error) {
	return func() (*ebpf.CollectionSpec, error) {
		object := amd64
		if runtime.GOARCH == "arm64" {
			object = arm64
		}
		return ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	}
}

// Native is the probes of a set as machine code. It runs on a page boundary of the architecture's smallest pages.
type Native struct {
	Code         []byte
	Settings     uint64 // where the code expects the settings, from its beginning; on a page boundary. See Link
	SettingsSize uint64
	Page         uint64 // the largest page size of the architecture
	StackUse     int    // no more bytes of the stack are used
	Probes       []uint32
	Fixups       []uint32 // the instructions that contain the distance to the settings
}

// linkAlign is what the distance between code and settings is a multiple of: the unit of arm64's ADRP.
const linkAlign = 4 << 10

// Link changes the code so that it expects the settings at another place, from its beginning.
func (n *Native) Link(goarch string, settings uint64) error {
	moved := int64(settings - n.Settings)
	if moved%linkAlign != 0 || moved != int64(int32(moved)) {
		return fmt.Errorf("settings at %#x cannot be moved to %#x", n.Settings, settings)
	}
	for _, at := range n.Fixups {
		word := binary.LittleEndian.Uint32(n.Code[at:])
		if goarch == "arm64" {
			pages := int32(word>>5&(1<<19-1)<<2|word>>29&3)<<11>>11 + int32(moved/linkAlign)
			word = word&^(3<<29|(1<<19-1)<<5) | uint32(pages)&3<<29 | uint32(pages)>>2&(1<<19-1)<<5
		} else {
			word += uint32(moved)
		}
		binary.LittleEndian.PutUint32(n.Code[at:], word)
	}
	n.Settings = settings
	return nil
}
