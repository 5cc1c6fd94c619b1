package csrc

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

//go:generate go run ./gen
//go:generate go run ./flatten
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -go-package csrc -target amd64,arm64 -no-global-types -type loupe_config -type loupe_site -type loupe_record -type loupe_create -type loupe_stack -type loupe_text -type loupe_table -type loupe_mark -type loupe_count -type loupe_wait -type loupe_control -type loupe_filter -type loupe_probe -type loupe_flag -type loupe_limit -type loupe_lane_limit -type loupe_ring -type loupe_lane -type loupe_shared -type loupe_native -type loupe_wait_entry -type loupe_context -type loupe_loans -type loupe_loan_limit -type loupe_carried -type loupe_allocated_entry -type loupe_totals Probes probes.bpf.c -- -O2 -Wall -Wextra -Werror -Wno-unused-parameter -mcpu=v3 -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// The types that probes and their readers share, by their plain names. loupe.h says what they mean.
type (
	Config  = ProbesLoupeConfig
	Site    = ProbesLoupeSite
	Record  = ProbesLoupeRecord
	Create  = ProbesLoupeCreate
	Stack   = ProbesLoupeStack
	Text    = ProbesLoupeText
	Table   = ProbesLoupeTable
	Count   = ProbesLoupeCount
	Totals  = ProbesLoupeTotals
	Control = ProbesLoupeControl
	Filter  = ProbesLoupeFilter
	Probe   = ProbesLoupeProbe
)

// List notes a goroutine that the filter lists, if its ID is small.
func (c *ProbesLoupeControl) List(goroutine uint64) {
	if goroutine < SmallIDs {
		c.Small[goroutine] = 1
	}
}

// Unlist notes that the filter no longer lists a goroutine, if its ID is small.
func (c *ProbesLoupeControl) Unlist(goroutine uint64) {
	if goroutine < SmallIDs {
		c.Small[goroutine] = 0
	}
}

// Add changes the number of listed goroutines whose large IDs have the same remainder as one. A number that is too large costs time, one
// that is too small loses events.
func (f *ProbesLoupeFilter) Add(goroutine uint64, n int) {
	atomic.AddUint32(&f.Listed[goroutine%uint64(len(f.Listed))], uint32(n))
}

// Sizes and marks of loupe.h.
const (
	MaxStack   = int(ProbesLoupeLimitLOUPE_MAX_STACK)
	GHead      = int(ProbesLoupeLimitLOUPE_G_HEAD) * 8   // bytes at the beginning of a g that are read at once
	SmallIDs   = uint64(ProbesLoupeLimitLOUPE_SMALL_IDS) // goroutines with IDs below are in Control alone
	NoField    = uint32(ProbesLoupeLimitLOUPE_NO_FIELD)
	NoRegister = 255
	NoSlot     = -1 // csrc.Site.Results
	KindStack  = uint8(ProbesLoupeLimitLOUPE_KIND_STACK)
	KindSwitch = uint8(ProbesLoupeLimitLOUPE_KIND_SWITCH)
	KindSet    = uint8(ProbesLoupeLimitLOUPE_KIND_SET) // of the first set besides that of the runtime
	MaxSets    = int(ProbesLoupeLimitLOUPE_MAX_SETS)
	MaxTables  = 64 << 20                              // bytes of the tables of all sets in one lane
	MaxRecord  = int(ProbesLoupeLimitLOUPE_MAX_RECORD) // bytes
	BytesBits  = int(ProbesLoupeLimitLOUPE_BYTES_BITS)

	FlagWaiting    = uint8(ProbesLoupeFlagLOUPE_WAITING)
	FlagNoParent   = uint8(ProbesLoupeFlagLOUPE_NO_PARENT)
	FlagSwitchExit = uint8(ProbesLoupeFlagLOUPE_SWITCH_EXIT)
	FlagPreempted  = uint8(ProbesLoupeFlagLOUPE_PREEMPTED)
	FlagHasReason  = uint8(ProbesLoupeFlagLOUPE_HAS_REASON)
)

// SetBytes returns the settings of a set as its C half has them: struct loupe_set.
func SetBytes(kind uint8, sites []Site, settings []uint64, tables []Table) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(kind))
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(sites))), len(sites)*int(unsafe.Sizeof(Site{})))...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	for _, v := range settings {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(tables))), len(tables)*int(unsafe.Sizeof(Table{})))...)
}
