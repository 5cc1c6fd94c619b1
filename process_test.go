package loupe

import (
	"testing"

	"github.com/loupe-go/loupe/internal/export/pprof"
	"github.com/loupe-go/loupe/internal/procmap"
)

func TestMappingAt(t *testing.T) {
	maps, err := procmap.Parse([]byte(`00400000-00401000 r--p 00000000 fe:00 42                                 /opt/my app/bin
00401000-00a02000 r-xp 00001000 fe:00 42                                 /opt/my app/bin (deleted)
7fff00000000-7fff00021000 rw-p 00000000 00:00 0                          [stack]
`))
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[uint64]pprof.Mapping{
		0x401000:       {Start: 0x401000, End: 0xa02000, Offset: 0x1000, File: "/opt/my app/bin"},
		0xa01fff:       {Start: 0x401000, End: 0xa02000, Offset: 0x1000, File: "/opt/my app/bin"},
		0x400010:       {Start: 0x400000, End: 0x401000, File: "/opt/my app/bin"},
		0xa02000:       {},
		0x7fff00000000: {Start: 0x7fff00000000, End: 0x7fff00021000},
	} {
		if got := mappingAt(maps, addr); got != want {
			t.Errorf("mappingAt(%#x) = %+v, want %+v", addr, got, want)
		}
	}
}
