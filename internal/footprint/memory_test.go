package footprint

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestAvailable(t *testing.T) {
	if n := Available(); n < 1<<20 {
		t.Errorf("%d bytes are available to this process", n)
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing tells", nil, unknownMemory},
		{"the machine", map[string]string{"proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable:     100 kB\n"}, 100 << 10},
		{"a control group above", map[string]string{
			"proc/meminfo": "MemAvailable: 1000000 kB\n", "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "50000\n", "sys/fs/cgroup/a/memory.current": "20000\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
		}, 30000},
		{"a control group that is full", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "5\n", "sys/fs/cgroup/a/memory.current": "20000\n",
		}, 0},
	} {
		root := t.TempDir()
		for name, content := range test.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := available(root); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	restore := LimitMemory(1 << 30)
	if now := debug.SetMemoryLimit(-1); now != 1<<30 {
		t.Errorf("the limit is %d", now)
	}
	restore()
	if now := debug.SetMemoryLimit(-1); now != before {
		t.Errorf("the limit is %d, want %d again", now, before)
	}
}
