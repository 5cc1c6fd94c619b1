package uprobe

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/testmount"
)

// TestOpenProfilerMap creates the map, and then opens the one that exists.
func TestOpenProfilerMap(t *testing.T) {
	path := filepath.Join(testmount.New(t, "bpf", ""), "some", "where", "map")
	first, err := openProfilerMap(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if problem := profilerMapProblem(first); problem != "" {
		t.Error(problem)
	}
	const ours, others = 7<<32 | 8, 9<<32 | 8
	for _, key := range []uint64{ours, ours + 1, others} {
		if err := first.Put(key, [profilerValueSize]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	second, err := openProfilerMap(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := removeThreads(second, 7); err != nil {
		t.Error(err)
	}
	var value [profilerValueSize]byte
	for key, want := range map[uint64]error{ours: ebpf.ErrKeyNotExist, ours + 1: ebpf.ErrKeyNotExist, others: nil} {
		if err := first.Lookup(key, &value); !errors.Is(err, want) {
			t.Errorf("thread %#x: %v, want %v", key, err, want)
		}
	}
}

// TestOpenProfilerMapRefused opens what is not such a map.
func TestOpenProfilerMapRefused(t *testing.T) {
	dir := testmount.New(t, "bpf", "")
	fits := ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: profilerKeySize, ValueSize: profilerValueSize, MaxEntries: profilerEntries}
	for name, test := range map[string]struct {
		change func(*ebpf.MapSpec)
		want   string // empty: it is accepted
	}{
		"larger": {func(s *ebpf.MapSpec) { s.MaxEntries *= 2 }, ""},
		"type":   {func(s *ebpf.MapSpec) { s.Type = ebpf.Hash }, "its type is Hash, want LRUHash"},
		"key":    {func(s *ebpf.MapSpec) { s.KeySize = 4 }, "its keys have 4 bytes, want 8"},
		"value":  {func(s *ebpf.MapSpec) { s.ValueSize = 32 }, "its values have 32 bytes, want 24"},
		"room":   {func(s *ebpf.MapSpec) { s.MaxEntries = 1 }, "it has room for 1 entry, want at least 16384"},
		"rights": {func(s *ebpf.MapSpec) { s.Flags = unix.BPF_F_RDONLY_PROG }, "eBPF programs may not read and write it"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, path := fits, filepath.Join(dir, name)
			test.change(&spec)
			m, err := ebpf.NewMap(&spec)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if err := m.Pin(path); err != nil {
				t.Fatal(err)
			}
			got, err := openProfilerMap(path)
			got.Close()
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, probe.ErrUnsupported) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "a", "b"): "no BPF file system is mounted at",
		filepath.Join(dir, "type", "below"):  "not a directory",
	} {
		if _, err := openProfilerMap(path); !errors.Is(err, probe.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if _, err := openProfilerMap(dir); !errors.Is(err, probe.ErrPermission) { // this is what the kernel says of a directory
		t.Error(err)
	}
}
