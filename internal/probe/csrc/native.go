package csrc

import "slices"

// Types and sizes of lanes.h: the memory that probes in machine code work in.
type (
	Lane      = ProbesLoupeLane
	Shared    = ProbesLoupeShared
	Settings  = ProbesLoupeNative
	WaitEntry = ProbesLoupeWaitEntry
)

// Sizes of lanes.h.
const (
	LaneSpan    = int(ProbesLoupeLaneLimitLOUPE_LANE_SPAN)
	LaneTop     = int(ProbesLoupeLaneLimitLOUPE_LANE_TOP)
	StackUse    = int(ProbesLoupeLaneLimitLOUPE_STACK_USE)
	Times       = int(ProbesLoupeLaneLimitLOUPE_TIMES)
	TableWindow = int(ProbesLoupeLaneLimitLOUPE_WINDOW_ENTRIES)
	ProbeCount  = int(ProbesLoupeProbePROBE_COUNT)
)

// Native is the probes as machine code. It runs wherever it is put, on a page boundary, and expects Settings behind it.
type Native struct {
	Code         []byte
	Settings     uint64 // where the code expects the settings, from its beginning; on a page boundary
	SettingsSize uint64
	Page         uint64 // the largest page size of the architecture
	StackUse     int    // no more bytes of the stack are used
	Probes       [ProbeCount]uint32
}

// NativeFor returns the probes for an architecture, by its Go name. ok is false when there are none.
func NativeFor(goarch string) (n Native, ok bool) {
	switch goarch {
	case "amd64":
		n, n.Code = nativeAMD64, slices.Clone(nativeAMD64Code)
	case "arm64":
		n, n.Code = nativeARM64, slices.Clone(nativeARM64Code)
	default:
		return Native{}, false
	}
	return n, true
}
