package ptrace

import (
	"debug/elf"
	"reflect"
	"testing"

	"github.com/loupe-go/loupe/internal/procmap"
	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testtarget"
)

func TestRooms(t *testing.T) {
	const page = 4096
	head := make([]byte, page)
	load := func(off, vaddr, filesz, memsz uint64, flags elf.ProgFlag) elf.Prog64 {
		return elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(flags), Off: off, Vaddr: vaddr, Filesz: filesz, Memsz: memsz}
	}
	note := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 0xf9c}
	code := load(0, 0x400000, 0x9a497, 0x9a497, elf.PF_R|elf.PF_X)
	data := load(0x9b000, 0x49b000, 0x10, 0x5000, elf.PF_R|elf.PF_W)
	bss := load(0, 0x400000, 0x10, 0x20, elf.PF_R|elf.PF_X)
	dynamic := elf.Prog64{Type: uint32(elf.PT_DYNAMIC)}
	for _, test := range []struct {
		name  string
		start uint64
		progs []elf.Prog64
		want  []room
	}{
		{"static", 0x400000, []elf.Prog64{note, code, data}, []room{{0x49a497, 0x49b000}, {0x4000f0, 0x400f9c}}},
		{"loaded elsewhere", 0x555000400000, []elf.Prog64{dynamic, code, data}, []room{{0x55500049a497, 0x55500049b000}}},
		{"code with more memory than file", 0x400000, []elf.Prog64{dynamic, bss}, nil},
		{"no code", 0x49b000, []elf.Prog64{dynamic, data}, nil},
	} {
		if got := roomsBetween(test.start, head, test.progs, page); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %#x, want %#x", test.name, got, test.want)
		}
	}
	head[40], head[41], head[58], head[60] = 0x90, 0x01, 64, 26 // section headers
	if got := roomsBetween(0x400000, head, []elf.Prog64{note, code}, page); len(got) != 2 || got[1].lo != 0x400810 {
		t.Errorf("section headers are taken for nothing: %#x", got)
	}
	copy(head[0x810:], wayBack)
	if got := roomsBetween(0x400000, head, []elf.Prog64{note, code}, page); len(got) != 2 {
		t.Errorf("what a killed tracer has left is not found: %#x", got)
	}
	head[0x810]++
	if got := roomsBetween(0x400000, head, []elf.Prog64{note, code}, page); len(got) != 1 {
		t.Errorf("bytes in use are taken: %#x", got)
	}
}

// TestFootholds finds a place in programs of all shapes, in which no byte belongs to the program.
func TestFootholds(t *testing.T) {
	paths := map[string]string{}
	for _, spec := range []testtarget.Spec{{}, {Cgo: true}, {PIE: true}, {Go: "1.12.17"}, {Stripped: true}, {PIE: true, Cgo: true}} {
		spec.Program = "tiny"
		paths[spec.String()] = testtarget.Build(t, spec)
	}
	for name, path := range paths {
		target := testtarget.Start(t, path)
		checkFoothold(t, name, target.PID())
	}
	cat := testcmd.Within(t, 0, "cat")
	in, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	checkFoothold(t, "cat", cat.Process.Pid)
	in.Close()
	if err := cat.Wait(); err != nil {
		t.Error(err)
	}
}

func checkFoothold(t *testing.T, name string, pid int) {
	t.Helper()
	s := mustStop(t, pid, Options{})
	defer s.Release()
	err := s.Do(func() error {
		f, err := s.enter()
		if err != nil {
			return err
		}
		maps, err := s.Maps()
		if err != nil {
			return err
		}
		m, _ := procmap.Of(maps, f.at)
		t.Logf("%s: %d bytes at %#x in %s", name, f.size, f.at, m.Path)
		for _, b := range f.old {
			if b != 0 {
				t.Errorf("%s: bytes at %#x in %s are in use: %.50x", name, f.at, m.Path, f.old)
				break
			}
		}
		// Without the others, the vDSO does.
		var vdso []procmap.Mapping
		for _, m := range maps {
			if m.Path == "[vdso]" {
				vdso = append(vdso, m)
			}
		}
		if r, ok, err := s.findRoom(vdso); err != nil {
			t.Error(err)
		} else if len(vdso) > 0 && !ok {
			t.Errorf("%s: no room in the vDSO", name)
		} else if len(vdso) > 0 {
			t.Logf("%s: %d bytes in the vDSO", name, r.size())
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
