package goproc

import (
	"bufio"
	"io/fs"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/procmap"
)

const smaps = `00400000-00500000 r-xp 00000000 fd:00 123                        /bin/app
Size:               1024 kB
Rss:                 800 kB
VmFlags: rd ex mr mw me dw sd
00500000-00520000 rw-p 00100000 fd:00 123                        /bin/app
Rss:                  96 kB
00520000-00540000 rw-p 00000000 00:00 0
Rss:                  64 kB
01000000-02000000 rw-p 00000000 00:00 0                          [heap]
Rss:                5000 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Rss:                3000 kB
c000400000-c004000000 ---p 00000000 00:00 0
Rss:                   0 kB
7f0000000000-7f0001000000 rw-p 00000000 00:00 0
Rss:                 500 kB
7f0002000000-7f0003000000 r--p 00000000 fd:00 456                /lib/a: strange (deleted)
Rss:                 200 kB
7f0004000000-7f0005000000 rw-s 00000000 00:05 789                /memfd:ring (deleted)
Rss:                 300 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
Rss:                  20 kB
`

func sorted(t *testing.T, text string, metadata uint64) *event.MemoryParts {
	t.Helper()
	s := sorter{arenas: []uint64{0xc000000000}, arenaBytes: 64 << 20, exe: "/bin/app"}
	if err := eachResident(bufio.NewReader(strings.NewReader(text)), s.add); err != nil {
		t.Fatal(err)
	}
	return s.parts(metadata)
}

func TestMemoryParts(t *testing.T) {
	p := sorted(t, smaps, 400<<10)
	want := event.MemoryParts{Arenas: 3000 << 10, Metadata: 400 << 10, Executable: 960 << 10, Files: 200 << 10, Shared: 300 << 10,
		CHeap: 5000 << 10, Other: 120 << 10, MetadataBound: true}
	largest := p.Largest
	p.Largest = nil
	if p.Sum() != want.Sum() || p.Arenas != want.Arenas || p.Metadata != want.Metadata || p.Executable != want.Executable || p.Files != want.Files ||
		p.Shared != want.Shared || p.CHeap != want.CHeap || p.Other != want.Other || !p.MetadataBound {
		t.Errorf("%+v, want %+v", p, want)
	}
	if len(largest) != maxLargest || largest[0].Name != "[heap]" || largest[0].RSS != 5000<<10 || largest[3].Name != "/memfd:ring (deleted)" {
		t.Errorf("largest: %+v", largest)
	}
	if p := sorted(t, smaps, 1<<30); p.Metadata != 500<<10 || p.Other != 20<<10 {
		t.Errorf("metadata of more than the anonymous memory: %+v", p)
	}
	// Mappings that the runtime names are exact.
	named := strings.Replace(smaps, "7f0001000000 rw-p 00000000 00:00 0\n", "7f0001000000 rw-p 00000000 00:00 0    [anon: Go: heap metadata]\n", 1)
	if p := sorted(t, named, 1); p.MetadataBound || p.Metadata != 500<<10 || p.Other != 20<<10 {
		t.Errorf("named mappings: %+v", p)
	}
}

func TestMalformedSmaps(t *testing.T) {
	for _, text := range []string{"x", "zz-yy rw-p\n", "00400000-00500000 r-xp 00000000 fd:00 1 /a\nRss: many kB\n", strings.Repeat("a", 1<<17)} {
		if err := eachResident(bufio.NewReader(strings.NewReader(text)), func(procmap.Mapping, uint64) {}); err == nil {
			t.Errorf("%.40q is accepted", text)
		}
	}
	var m event.ProcessMemory
	for _, text := range []string{"", "Name: x\n", "VmRSS: 99999999999999999999 kB\n", "VmRSS: -1 kB\n"} {
		if err := parseResident([]byte(text), &m); err == nil {
			t.Errorf("status %q is accepted: %+v", text, m)
		}
	}
}

// TestCGroup reads cgroups of both versions from files that it makes up.
func TestCGroup(t *testing.T) {
	const mounts = `25 30 0:22 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
26 30 0:23 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw
27 30 0:24 / /proc rw - proc proc rw
`
	files := map[string]string{
		"/sys/fs/cgroup/memory/pod/a/memory.usage_in_bytes": "1000\n", "/sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes": "9223372036854771712\n",
		"/sys/fs/cgroup/memory/pod/memory.usage_in_bytes": "3000\n", "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "4000\n",
		"/sys/fs/cgroup/unified/pod/b/memory.current": "500\n", "/sys/fs/cgroup/unified/pod/b/memory.max": "700\n",
		"/sys/fs/cgroup/unified/pod/memory.current": "600\n", "/sys/fs/cgroup/unified/pod/memory.max": "max\n",
	}
	read := func(path string) ([]byte, error) {
		if text, ok := files[path]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	for groups, want := range map[string]*event.CGroupMemory{
		"9:cpu:/x\n4:memory:/pod/a\n0::/\n": {Path: "/sys/fs/cgroup/memory/pod/a", Current: 1000,
			Limit: &event.CGroupLimit{Path: "/sys/fs/cgroup/memory/pod", Max: 4000, Current: 3000}},
		"0::/pod/b\n": {Path: "/sys/fs/cgroup/unified/pod/b", Current: 500,
			Limit: &event.CGroupLimit{Path: "/sys/fs/cgroup/unified/pod/b", Max: 700, Current: 500}},
		"0::/pod\n":      {Path: "/sys/fs/cgroup/unified/pod", Current: 600},
		"0::/\n":         nil, // the root has no accounting
		"0::/../other\n": nil, // outside of this namespace
		"nonsense":       nil, "": nil,
	} {
		got := readCGroup(groups, mounts, read)
		switch {
		case (got == nil) != (want == nil):
			t.Errorf("%q: %+v, want %+v", groups, got, want)
		case got == nil:
		case got.Path != want.Path || got.Current != want.Current || (got.Limit == nil) != (want.Limit == nil) || got.Limit != nil && *got.Limit != *want.Limit:
			t.Errorf("%q: %+v %+v, want %+v %+v", groups, got, got.Limit, want, want.Limit)
		}
	}
}
