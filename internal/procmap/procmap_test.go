package procmap

import (
	"os"
	"reflect"
	"testing"
	"unsafe"
)

func TestParse(t *testing.T) {
	text := "00400000-00401000 r-xp 00001000 fd:00 17                         /a b/c (deleted)\n" +
		"7ffc1000-7ffc3000 rw-s 00000000 00:00 0 \n"
	want := []Mapping{
		{Start: 0x400000, End: 0x401000, Perms: "r-xp", Offset: 0x1000, Dev: "fd:00", Inode: 17, Path: "/a b/c (deleted)"},
		{Start: 0x7ffc1000, End: 0x7ffc3000, Perms: "rw-s", Dev: "00:00"},
	}
	got, err := Parse([]byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if !want[0].Exec() || !want[0].Private() || want[1].Exec() || want[1].Private() || (Mapping{}).Exec() || (Mapping{}).Private() {
		t.Error("permissions")
	}
	for _, bad := range []string{"x", "1-2 r-xp 0 0:0", "1 r-xp 0 0:0 0", "g-2 r-xp 0 0:0 0", "1-2 r-xp 0 0:0 x"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestOf finds a variable of this program.
func TestOf(t *testing.T) {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	maps, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	addr := uint64(uintptr(unsafe.Pointer(&b[0])))
	if m, ok := Of(maps, addr); !ok || m.Start > addr || m.End <= addr || m.Perms[:2] != "rw" {
		t.Errorf("%#x is in %+v, %v", addr, m, ok)
	}
	if m, ok := Of(maps, 0); ok {
		t.Errorf("address 0 is in %+v", m)
	}
}
