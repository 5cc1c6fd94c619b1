package layout

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/gobin/layout/internal/table"
)

// versions returns the releases that the table was made from, oldest first: "go1.12", ..., "go1.22.12", ...
func versions(t *testing.T) []string {
	t.Helper()
	tab, err := table.Open(tableText)
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, r := range tab.Releases() {
		versions = append(versions, "go"+r.String())
	}
	return versions
}

func TestForVersion(t *testing.T) {
	releases := versions(t)
	last := releases[len(releases)-1]
	for _, test := range []struct {
		version string
		of      string // GoVersion of the result; the same as version when empty
		source  Source
	}{
		{version: "go1.22.12", source: SourceTable},
		{version: "go1.12", source: SourceTable},
		{version: "go1.20", source: SourceTable},
		{version: "go1.21", source: SourceTable, of: "go1.21"},
		{version: "go1.22.5", source: SourceTable}, // between two that are alike
		{version: "go1.12.3", source: SourceTable},
		{version: "go1.23.5", source: SourceNearest, of: "go1.23.4"}, // something changed before 1.23.6
		{version: "go1.12.18", source: SourceNearest, of: "go1.12.17"},
		{version: "go1.99.1", source: SourceNearest, of: last},
		{version: "go1.22rc1", source: SourceNearest, of: "go1.22.0"},
		{version: "go1.22.3 X:nocoverageredesign", source: SourceNearest, of: "go1.22.0"},
		{version: "go1.19.8 (Debian 1.19.8-2)", source: SourceNearest, of: "go1.19.4"},
		{version: "go1.24.6-1", source: SourceNearest, of: "go1.24.6"},
		{version: "devel go1.99-abcdef0 Tue Jan 6 10:00:00 2026 +0000", source: SourceNearest, of: last},
		{version: "devel go1.23-abcdef0", source: SourceNearest, of: "go1.23.0"},
		{version: "devel +b7a85e0003 Tue Jan 21 10:00:00 2020 +0000", source: SourceNearest, of: "go1.16"},
	} {
		for _, arch := range []string{"amd64", "arm64"} {
			l, err := ForVersion(test.version, arch)
			if err != nil {
				t.Errorf("%s/%s: %v", test.version, arch, err)
				continue
			}
			of := test.of
			if of == "" {
				of = test.version
			}
			if l.Source != test.source || l.GoVersion != of || l.Arch != arch {
				t.Errorf("%s/%s: layout of %s/%s from %v; want that of %s from %v",
					test.version, arch, l.GoVersion, l.Arch, l.Source, of, test.source)
			}
		}
	}
}

func TestForVersionErrors(t *testing.T) {
	for _, version := range []string{"go1.11.13", "go1.4", "go2.0", "go1", "go1.", "", "1.22.3", "gccgo 12", "devel", "go1.123456789"} {
		if l, err := ForVersion(version, "amd64"); !errors.Is(err, ErrUnsupportedVersion) {
			t.Errorf("%q: %v, %v; want ErrUnsupportedVersion", version, l, err)
		}
	}
	for _, arch := range []string{"386", "riscv64", ""} {
		if l, err := ForVersion("go1.22.3", arch); !errors.Is(err, ErrUnsupportedArch) {
			t.Errorf("%q: %v, %v; want ErrUnsupportedArch", arch, l, err)
		}
	}
}

// TestOffsets compares with offsets that were read off other tools.
func TestOffsets(t *testing.T) {
	versions := []string{"go1.22.0", "go1.23.0", "go1.24.0", "go1.25.0", "go1.26.0"}
	for path, want := range map[string][5]uint64{
		"runtime.g.goid":         {152, 160, 160, 152, 152},
		"runtime.g.atomicstatus": {144, 152, 152, 144, 144},
		"runtime.g.waitreason":   {176, 184, 184, 176, 176},
		"runtime.g.parentGoid":   {272, 280, 280, 272, 280},
		"runtime.g.startpc":      {296, 304, 304, 296, 304},
		"runtime.m.procid":       {72, 72, 72, 64, 64},
	} {
		for i, version := range versions {
			l, err := ForVersion(version, "amd64")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := l.Offset(path); err != nil || got != want[i] {
				t.Errorf("%s: %s at %d (%v), want %d", version, path, got, err, want[i])
			}
		}
	}
}

// TestEveryRelease asks each release in the table for what no release lacks, and for what came or went with one.
func TestEveryRelease(t *testing.T) {
	releases := versions(t)
	if !slices.Contains(releases, "go1.12") || len(releases) < 30 {
		t.Fatalf("releases %v", releases)
	}
	always := []string{
		"runtime.g.stack.lo", "runtime.g.stack.hi", "runtime.g.sched.sp", "runtime.g.sched.pc", "runtime.g.sched",
		"runtime.g.goid", "runtime.g.atomicstatus", "runtime.g.waitreason", "runtime.g.waitsince", "runtime.g.m",
		"runtime.g.labels", "runtime.g.gopc", "runtime.g.startpc", "runtime.m.g0", "runtime.m.curg", "runtime.m.procid",
		"runtime.m.alllink", "runtime.p.status", "runtime.p.m", "runtime.p.runq", "runtime.schedt.runq.head",
		"runtime.hchan.qcount", "runtime.hchan.recvq.first", "runtime.hchan.lock.key", "runtime.sudog.g", "runtime.sudog.elem",
		"runtime.moduledata.ftab.len", "runtime.moduledata.pclntable.array", "runtime.moduledata.next",
		"runtime._func.funcID", "runtime._func.pcsp", "runtime.inlinedCall.parentPc", "runtime.timer.when",
		"runtime.mspan.elemsize", "runtime.workType.tstart", "runtime._type.size", "runtime._type.kind", "runtime.itab._type",
		"runtime.semaRoot.nwait",
	}
	// since the release of the key and, with a second one, until before that release.
	between := map[string][2]int{
		"runtime.pcHeader.magic":               {16, 0},
		"runtime.g.parentGoid":                 {21, 0},
		"runtime.coro.gp":                      {22, 0},
		"runtime.synctestGroup.running":        {24, 25},
		"runtime.synctestBubble.running":       {25, 0},
		"runtime/pprof.labelMap.LabelSet.list": {24, 0},
		"runtime/pprof.label.value":            {12, 0},
		"runtime.timers.heap.array":            {23, 0},
		"runtime.hmap.count":                   {12, 24},
		"runtime.moduledata.gofunc":            {18, 0},
		"runtime.inlinedCall.startLine":        {20, 0},
		"runtime.gcControllerState.heapLive":   {17, 0},
	}
	for _, version := range releases {
		r, _, err := table.ParseRelease(strings.TrimPrefix(version, "go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, arch := range arches {
			l, err := ForVersion(version, arch)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range always {
				if f, ok := l.Field(path); !ok || f.Size == 0 {
					t.Errorf("%s/%s: no %s", version, arch, path)
				}
			}
			for path, when := range between {
				_, ok := l.Field(path)
				if want := r.Minor >= when[0] && (when[1] == 0 || r.Minor < when[1]); ok != want {
					t.Errorf("%s/%s: %s is there: %v, want %v", version, arch, path, ok, want)
				}
			}
			checkWithin(t, l)
			checkWords(t, l)
		}
	}
}

// checkWithin compares each field with the struct's size and with the fields around it.
func checkWithin(t *testing.T, l *Layout) {
	for name := range l.data.Structs {
		size, _ := l.Size(name)
		for _, path := range l.Fields(name) {
			f, _ := l.Field(path)
			if uint64(f.Offset)+uint64(f.Size) > size {
				t.Errorf("%s/%s: %s %+v in a struct of %d bytes", l.GoVersion, l.Arch, path, f, size)
			}
			outer, ok := l.Field(path[:strings.LastIndexByte(path, '.')])
			if ok && (f.Offset < outer.Offset || f.Offset+f.Size > outer.Offset+outer.Size) {
				t.Errorf("%s/%s: %s %+v lies outside of %+v", l.GoVersion, l.Arch, path, f, outer)
			}
		}
	}
}

// checkWords looks at constants and texts.
func checkWords(t *testing.T, l *Layout) {
	for name, want := range map[string]int64{
		"runtime._Gidle": 0, "runtime._Grunnable": 1, "runtime._Grunning": 2, "runtime._Gsyscall": 3, "runtime._Gwaiting": 4,
		"runtime._Gdead": 6, "runtime._Gcopystack": 8, "runtime._Gscan": 0x1000, "runtime._Gscanwaiting": 0x1004,
		"runtime._Pidle": 0, "runtime._Pdead": 4, "runtime.funcID_normal": 0,
	} {
		if got, ok := l.Const(name); !ok || got != want {
			t.Errorf("%s/%s: %s = %d, %v; want %d", l.GoVersion, l.Arch, name, got, ok, want)
		}
	}
	ids := map[int64]string{}
	for _, name := range []string{"wrapper", "goexit", "gopanic", "sigpanic", "systemstack", "mcall", "morestack", "mstart",
		"rt0_go", "runtime_main", "gcBgMarkWorker"} {
		id, ok := l.Const("runtime.funcID_" + name)
		if other, twice := ids[id]; !ok || id == 0 || twice {
			t.Errorf("%s/%s: funcID_%s = %d, like %q", l.GoVersion, l.Arch, name, id, other)
		}
		ids[id] = name
	}
	for constant, text := range map[string]string{
		"runtime.waitReasonSelect": "select", "runtime.waitReasonChanReceive": "chan receive",
		"runtime.waitReasonIOWait": "IO wait", "runtime.waitReasonSleep": "sleep", "runtime.waitReasonZero": "",
	} {
		reasons := l.WaitReasons()
		if v, ok := l.Const(constant); !ok || v < 0 || int(v) >= len(reasons) || reasons[v] != text {
			t.Errorf("%s/%s: %s = %d, %v; want the index of %q in %q", l.GoVersion, l.Arch, constant, v, ok, text, reasons)
		}
	}
}

func TestConstByEitherName(t *testing.T) {
	l, err := ForVersion("go1.26.8", "arm64")
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{
		"runtime.funcID_wrapper":       "internal/abi.FuncIDWrapper",
		"runtime.funcID_goexit":        "internal/abi.FuncID_goexit",
		"runtime._PCDATA_InlTreeIndex": "internal/abi.PCDATA_InlTreeIndex",
		"runtime._FUNCDATA_InlTree":    "internal/abi.FUNCDATA_InlTree",
		"runtime.funcFlag_topFrame":    "internal/abi.FuncFlagTopFrame",
	} {
		a, ok1 := l.Const(name)
		b, ok2 := l.Const(other)
		if !ok1 || !ok2 || a != b {
			t.Errorf("%s = %d, %v; %s = %d, %v", name, a, ok1, other, b, ok2)
		}
	}
	if v, ok := l.Const("runtime.noSuchConstant"); ok {
		t.Errorf("a constant that does not exist is %d", v)
	}
}

func TestOffsetErrorIsClear(t *testing.T) {
	l, err := ForVersion("go1.99", "arm64")
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Offset("runtime.g.noSuchField")
	if !errors.Is(err, ErrUnknownField) {
		t.Fatalf("%v, want ErrUnknownField", err)
	}
	for _, word := range []string{"runtime.g.noSuchField", l.GoVersion, "arm64", "nearest table"} {
		if !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q lacks %q", err, word)
		}
	}
	for _, path := range []string{"", "runtime", "runtime.g", "runtime.g.", "runtime.g.sched.", "x/y", "runtime.nothing.x"} {
		if f, ok := l.Field(path); ok {
			t.Errorf("field %q is %+v", path, f)
		}
	}
}

// TestStrings looks at the texts that later releases have.
func TestStrings(t *testing.T) {
	l, err := ForVersion("go1.26.8", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	for name, constants := range map[string]map[string]string{
		"runtime.traceBlockReasonStrings":  {"runtime.traceBlockSync": "sync", "runtime.traceBlockChanSend": "chan send"},
		"runtime.traceGoStopReasonStrings": {"runtime.traceGoStopPreempted": "preempted"},
		"runtime.stwReasonStrings":         {"runtime.stwGCMarkTerm": "GC mark termination"},
	} {
		for constant, text := range constants {
			v, ok := l.Const(constant)
			if list := l.Strings(name); !ok || v < 0 || int(v) >= len(list) || list[v] != text {
				t.Errorf("%s = %d, %v; want the index of %q in %q", constant, v, ok, text, list)
			}
		}
	}
	if list := l.Strings("runtime.noSuchStrings"); list != nil {
		t.Errorf("an array that does not exist holds %q", list)
	}
	reasons := l.WaitReasons()
	reasons[0] = "changed"
	if l.WaitReasons()[0] == "changed" {
		t.Error("a caller can change the layout's own texts")
	}
}

// TestSnapshotsShared expects that layouts of one release share what the table has, as those of the processes of an agent do.
func TestSnapshotsShared(t *testing.T) {
	var data []*table.Snapshot
	for _, version := range []string{"go1.22.12", "go1.22.12", "go1.22.12 X:boringcrypto", "go1.21.13"} {
		l, err := ForVersion(version, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, l.data)
	}
	if data[0] != data[1] || data[0] != data[2] {
		t.Error("the same release has been read again")
	}
	if data[0] == data[3] {
		t.Error("two releases have the same layout")
	}
}
