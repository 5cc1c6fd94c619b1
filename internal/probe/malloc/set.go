package malloc

import (
	"errors"
	"fmt"
	"sync"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

//go:generate go run ../csrc/flatten -ebpf -headers ../csrc -source probes.c -list probes.c -package malloc -out code.go -code code

// By selects what allocations are summed by.
type By uint8

const (
	ByGoroutine By = 1 << iota // the goroutine, and the go statement that created it
	ByPlace                    // the stack, the type and the size class

	// ByRequest counts the allocations of goroutines of requests, in the sums that probe.Want.Allocated receives. It excludes the
	// others, and Read has no counts.
	ByRequest
)

// Names and limits of the tables in the C half.
const (
	goroutines, creators, places, callers, rest = "goroutines", "creators", "places", "callers", "rest"

	program = "mallocgc"

	maxGoroutines = 1 << 14
	maxCreators   = 1 << 10
	maxPlaces     = 1 << 14
	maxStacks     = 1 << 17 // of places that the Go half keeps
)

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// Options configures [New].
type Options struct {
	By By

	// The numbers of goroutines and places with sums of their own. Zero means a default. Other goroutines are in Counts.Creators
	// and in Counts.Other. Half as many more places have sums by their innermost callers. The others are in Counts.OtherPlace.
	Goroutines, Places int
}

// A Set counts the allocations of one session.
type Set struct {
	Probes *probe.Set

	by     By
	mu     sync.Mutex
	stacks map[uint64]*event.Stack // by the keys of places
}

// New returns a set. At least one bit of Options.By must be set.
func New(o Options) *Set {
	s := &Set{by: o.By, stacks: map[uint64]*event.Stack{}}
	maxGoroutines, maxCreators, maxPlaces := maxGoroutines, maxCreators, maxPlaces
	if o.By == ByRequest {
		maxGoroutines, maxCreators, maxPlaces = 1, 1, 1
	}
	s.Probes = &probe.Set{
		Name: "allocations", Code: &code, Probes: declarations(), Settings: settings(o.By), Decode: s.decode,
		Tables: []probe.Table{
			{Name: goroutines, Values: sums + 2, Kept: 2, Keys: orDefault(o.Goroutines, maxGoroutines)},
			{Name: creators, Values: sums, Keys: maxCreators},
			{Name: places, Values: sums + 3, Kept: 3, Keys: orDefault(o.Places, maxPlaces)},
			{Name: callers, Values: sums + 2 + shortStack, Kept: 2 + shortStack, Keys: max(orDefault(o.Places, maxPlaces)/2, 1)},
			{Name: rest, Values: sums, Keys: 1},
		},
	}
	return s
}

func orDefault(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// specialized is the first release with functions for one size class. Compiled code calls them from Go 1.27 on, or with
// GOEXPERIMENT=sizespecializedmalloc.
const specialized = 26

// declarations returns the probe. All functions have the parameters of mallocgc. Their slow paths are not probed, because only
// they call these.
func declarations() []probe.Declaration {
	d := probe.Declaration{Program: program, Funcs: []string{"runtime.mallocgc"}, Words: 2, NeedsG: true, Fence: probe.Untimed,
		Without: "allocations are not counted", Until: specialized,
		Settings: []string{"by", "header_above", "small_max", "rounded", "type_ptrdata", "p_mcache", "mcache_tiny", "mcache_tinyoffset"}}
	all := d
	all.Since, all.Until = specialized, 0
	all.Funcs = append(all.Funcs, "runtime.mallocgcTinySC2")
	for size := 1; size < 16; size++ {
		all.Funcs = append(all.Funcs, fmt.Sprintf("runtime.mallocgcTinySize%d", size))
	}
	for class := 1; class <= len(classSizes)+1; class++ {
		all.Funcs = append(all.Funcs, fmt.Sprintf("runtime.mallocgcSmallNoScanSC%d", class), fmt.Sprintf("runtime.mallocgcSmallScanNoHeaderSC%d", class))
	}
	return []probe.Declaration{d, all}
}

// errASan reports a program with red zones around its objects.
var errASan = errors.New("the program was built with -asan, which changes the sizes of objects")

// settings returns the settings of the C half.
func settings(by By) []probe.Setting {
	list := []probe.Setting{
		{Name: "by", Value: func(p probe.Program) (uint64, error) {
			if _, ok := p.Binary().LookupFunc("runtime.asanread"); ok {
				return 0, errASan
			}
			return uint64(by), nil
		}},
		{Name: "header_above", Value: sized(func(s sizing) uint64 { return s.headerAbove })},
		{Name: "small_max", Value: sized(func(s sizing) uint64 { return s.smallMax })},
		{Name: "type_ptrdata", Value: offset("runtime._type.ptrdata")},
		{Name: "p_mcache", Value: offset("runtime.p.mcache")},
		{Name: "mcache_tiny", Value: offset("runtime.mcache.tiny")},
		{Name: "mcache_tinyoffset", Value: offset("runtime.mcache.tinyoffset")},
	}
	// mallocgc calls a function for the size class of a small object, and the slow path of tiny objects one that does not combine
	// objects (runtime/malloc.go, malloc_generated.go).
	for name, f := range map[string]string{"outer": "runtime.mallocgc", "outer2": "runtime.mallocgcTinySlowPath"} {
		list = append(list,
			probe.Setting{Name: name, Value: outer(f, func(entry, _ uint64) uint64 { return entry })},
			probe.Setting{Name: name + "_size", Value: outer(f, func(entry, end uint64) uint64 { return end - entry })})
	}
	for i := range roundedSize {
		name := "rounded"
		if i > 0 {
			name = fmt.Sprint(name, i)
		}
		list = append(list, probe.Setting{Name: name, Value: func(p probe.Program) (uint64, error) {
			words, err := sizingOf(p.Binary().Version().Minor).roundedWords()
			return words[i], err
		}})
	}
	return list
}

func sized(of func(sizing) uint64) func(probe.Program) (uint64, error) {
	return func(p probe.Program) (uint64, error) { return of(sizingOf(p.Binary().Version().Minor)), nil }
}

func offset(path string) func(probe.Program) (uint64, error) {
	return func(p probe.Program) (uint64, error) { return p.Layout().Offset(path) }
}

// outer returns a number about the code of a function that calls others for the same allocation, or 0 if there is no such function.
func outer(name string, of func(entry, end uint64) uint64) func(probe.Program) (uint64, error) {
	return func(p probe.Program) (uint64, error) {
		f, ok := p.Binary().LookupFunc(name)
		if !ok || p.Binary().Version().Minor < specialized {
			return 0, nil
		}
		return of(f.Entry+p.LoadBias(), f.End+p.LoadBias()), nil
	}
}

// decode receives the stack of a place.
func (s *Set) decode(n *probe.Note) {
	key := n.Word()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Stack != nil && len(s.stacks) < maxStacks {
		s.stacks[key] = n.Stack
	}
}
