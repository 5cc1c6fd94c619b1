package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/loupe-go/loupe/checkup"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/memory"
	"github.com/loupe-go/loupe/internal/term"
)

// memoryJSON is the JSON document of a reading. Sizes are in bytes, counters count since the program started. Numbers that the
// Go release or the kernel does not provide are omitted.
type memoryJSON struct {
	Time      time.Time         `json:"time"`
	PID       int               `json:"pid"`
	GoVersion string            `json:"goVersion"`
	Verdict   string            `json:"verdict"`
	Process   processMemoryJSON `json:"process"`
	CGroup    *cgroupJSON       `json:"cgroup,omitempty"`
	Heap      heapMemoryJSON    `json:"heap"`
	Runtime   runtimeMemoryJSON `json:"runtime"`
	GC        gcMemoryJSON      `json:"gc"`
	BySize    []sizeClassJSON   `json:"bySize"`
	Reading   readingJSON       `json:"reading"`
	Rates     *ratesJSON        `json:"rates,omitempty"` // since the line before
	Findings  []checkup.Finding `json:"findings"`
}

type processMemoryJSON struct {
	RSS   uint64     `json:"rss"`
	Anon  uint64     `json:"anon"`
	File  uint64     `json:"file"`
	Shmem uint64     `json:"shmem"`
	Swap  uint64     `json:"swap"`
	Peak  uint64     `json:"peak"`
	Parts *partsJSON `json:"parts,omitempty"`
}

// partsJSON explains the resident memory.
type partsJSON struct {
	GoHeap        uint64        `json:"goHeap"`
	GoMetadata    uint64        `json:"goMetadata"`
	MetadataBound bool          `json:"metadataBound"` // goMetadata is an upper bound, and other a lower one
	Executable    uint64        `json:"executable"`
	Files         uint64        `json:"files"`
	Shared        uint64        `json:"shared"`
	CHeap         uint64        `json:"cHeap"`
	Other         uint64        `json:"other"`
	Largest       []mappingJSON `json:"largest"` // outside the Go heap
}

type mappingJSON struct {
	Start uint64 `json:"start"`
	End   uint64 `json:"end"`
	Name  string `json:"name"`
	RSS   uint64 `json:"rss"`
}

type cgroupJSON struct {
	Path    string           `json:"path"`
	Current uint64           `json:"current"`
	Limit   *cgroupLimitJSON `json:"limit,omitempty"`
}

type cgroupLimitJSON struct {
	Path    string `json:"path"`
	Max     uint64 `json:"max"`
	Current uint64 `json:"current"`
}

type heapMemoryJSON struct {
	Alloc      uint64  `json:"alloc"`
	Objects    uint64  `json:"objects"`
	Live       uint64  `json:"live"`
	Goal       *uint64 `json:"goal,omitempty"` // absent if the collector is off
	Inuse      uint64  `json:"inuse"`
	Idle       uint64  `json:"idle"`
	Released   uint64  `json:"released"`
	Sys        uint64  `json:"sys"`
	Unused     uint64  `json:"unused"`
	TotalAlloc uint64  `json:"totalAlloc"`
	Mallocs    uint64  `json:"mallocs"`
	Frees      uint64  `json:"frees"`
	Tiny       uint64  `json:"tinyAllocs"`
	Large      uint64  `json:"largeAllocs"`
	LargeFrees uint64  `json:"largeFrees"`
}

type runtimeMemoryJSON struct {
	StackInuse  uint64 `json:"stackInuse"`
	StackSys    uint64 `json:"stackSys"`
	MSpanInuse  uint64 `json:"mspanInuse"`
	MSpanSys    uint64 `json:"mspanSys"`
	MCacheInuse uint64 `json:"mcacheInuse"`
	MCacheSys   uint64 `json:"mcacheSys"`
	BuckHashSys uint64 `json:"buckHashSys"`
	GCSys       uint64 `json:"gcSys"`
	OtherSys    uint64 `json:"otherSys"`
	Sys         uint64 `json:"sys"`
}

type gcMemoryJSON struct {
	Cycles      uint32          `json:"cycles"`
	Forced      uint32          `json:"forced"`
	Running     bool            `json:"running"`
	Last        *time.Time      `json:"last,omitempty"`
	PauseTotal  float64         `json:"pauseTotalSeconds"`
	Pauses      []pauseJSON     `json:"pauses"` // newest first, at most 256
	CPUFraction float64         `json:"cpuFraction"`
	CPU         *cpuSecondsJSON `json:"cpuSeconds,omitempty"`
	Percent     int32           `json:"gogc"`                 // -1: off
	MemoryLimit *int64          `json:"gomemlimit,omitempty"` // math.MaxInt64: not set
}

type pauseJSON struct {
	End     time.Time `json:"end"`
	Seconds float64   `json:"seconds"`
}

// cpuSecondsJSON is the processor time by class, as of the last collection.
type cpuSecondsJSON struct {
	Assist    float64 `json:"gcMarkAssist"`
	Dedicated float64 `json:"gcMarkDedicated"`
	IdleMark  float64 `json:"gcMarkIdle"`
	Pause     float64 `json:"gcPause"`
	GC        float64 `json:"gcTotal"`
	Scavenge  float64 `json:"scavenge"`
	Idle      float64 `json:"idle"`
	User      float64 `json:"user"`
	Total     float64 `json:"total"`
}

type sizeClassJSON struct {
	Size    uint32 `json:"size"`
	Mallocs uint64 `json:"mallocs"`
	Frees   uint64 `json:"frees"`
}

type readingJSON struct {
	Attempts  int    `json:"attempts"`
	Torn      bool   `json:"torn"`
	Allocated uint64 `json:"allocated"`
	Freed     uint64 `json:"freed"`
}

type ratesJSON struct {
	Seconds    float64  `json:"seconds"`
	AllocBytes float64  `json:"allocBytesPerSecond"`
	Allocs     float64  `json:"allocsPerSecond"`
	Cycles     float64  `json:"gcPerSecond"`
	GCShare    *float64 `json:"gcShare,omitempty"`
}

// JSON writes the reading as one document.
func (r Memory) JSON(w io.Writer) error { return WriteJSON(w, r.document(nil)) }

// JSONLine writes the reading as one line, with the rates since an earlier one, which may be nil.
func (r Memory) JSONLine(w io.Writer, before *event.Memory) error {
	doc, err := json.Marshal(r.document(before))
	if err != nil {
		return err
	}
	_, err = w.Write(append(term.EscapeJSON(doc), '\n'))
	return err
}

func (r Memory) document(before *event.Memory) memoryJSON {
	m := r.Memory
	h, rt, p := &m.Heap, &m.Runtime, &m.Process
	doc := memoryJSON{
		Time: m.Time, PID: r.Info.PID, GoVersion: r.Info.GoVersion, Verdict: memory.Verdict(m),
		Process: processMemoryJSON{RSS: p.RSS, Anon: p.Anon, File: p.File, Shmem: p.Shmem, Swap: p.Swap, Peak: p.Peak, Parts: partsDocument(p.Parts)},
		Heap: heapMemoryJSON{Alloc: h.Alloc, Objects: h.Objects, Live: h.Live, Inuse: h.Inuse, Idle: h.Idle, Released: h.Released, Sys: h.Sys,
			Unused: h.Unused(), TotalAlloc: h.TotalAlloc, Mallocs: h.Mallocs, Frees: h.Frees, Tiny: h.Tiny, Large: h.LargeAllocs, LargeFrees: h.LargeFrees},
		Runtime: runtimeMemoryJSON{StackInuse: rt.StackInuse, StackSys: rt.StackSys, MSpanInuse: rt.MSpanInuse, MSpanSys: rt.MSpanSys,
			MCacheInuse: rt.MCacheInuse, MCacheSys: rt.MCacheSys, BuckHashSys: rt.BuckHashSys, GCSys: rt.GCSys, OtherSys: rt.OtherSys, Sys: rt.Sys},
		GC: gcDocument(&m.GC), BySize: []sizeClassJSON{}, Findings: append([]checkup.Finding{}, memory.Findings(m)...),
		Reading: readingJSON(m.Reading),
	}
	if !memory.Endless(h) {
		doc.Heap.Goal = &h.Goal
	}
	for _, c := range m.BySize {
		doc.BySize = append(doc.BySize, sizeClassJSON(c))
	}
	if c := p.CGroup; c != nil {
		doc.CGroup = &cgroupJSON{Path: c.Path, Current: c.Current}
		if c.Limit != nil {
			l := cgroupLimitJSON(*c.Limit)
			doc.CGroup.Limit = &l
		}
	}
	if r, ok := memory.RatesBetween(before, m); ok {
		doc.Rates = &ratesJSON{Seconds: r.Seconds, AllocBytes: r.AllocBytes, Allocs: r.Allocs, Cycles: r.Cycles}
		if r.GCShare >= 0 {
			doc.Rates.GCShare = &r.GCShare
		}
	}
	return doc
}

func partsDocument(p *event.MemoryParts) *partsJSON {
	if p == nil {
		return nil
	}
	doc := &partsJSON{GoHeap: p.Arenas, GoMetadata: p.Metadata, MetadataBound: p.MetadataBound, Executable: p.Executable, Files: p.Files,
		Shared: p.Shared, CHeap: p.CHeap, Other: p.Other, Largest: []mappingJSON{}}
	for _, l := range p.Largest {
		doc.Largest = append(doc.Largest, mappingJSON(l))
	}
	return doc
}

func gcDocument(gc *event.GCMemory) gcMemoryJSON {
	doc := gcMemoryJSON{Cycles: gc.Cycles, Forced: gc.Forced, Running: gc.Running, PauseTotal: gc.PauseTotal.Seconds(), Pauses: []pauseJSON{},
		CPUFraction: gc.CPUFraction, Percent: gc.Percent, MemoryLimit: gc.MemoryLimit}
	if !gc.Last.IsZero() {
		doc.Last = &gc.Last
	}
	for _, p := range gc.Pauses {
		doc.Pauses = append(doc.Pauses, pauseJSON{p.End, p.Duration.Seconds()})
	}
	if c := gc.CPU; c != nil {
		doc.CPU = &cpuSecondsJSON{Assist: c.Assist.Seconds(), Dedicated: c.Dedicated.Seconds(), IdleMark: c.IdleMark.Seconds(), Pause: c.Pause.Seconds(),
			GC: c.GC.Seconds(), Scavenge: c.Scavenge.Seconds(), Idle: c.Idle.Seconds(), User: c.User.Seconds(), Total: c.Total.Seconds()}
	}
	return doc
}
