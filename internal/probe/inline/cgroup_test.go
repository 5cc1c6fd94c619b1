package inline

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryRoom(t *testing.T) {
	for _, test := range []struct {
		name  string
		v1    bool
		files map[string]string
		want  int64
	}{
		{"no files", false, nil, math.MaxInt64},
		{"no limit", false, map[string]string{"memory.max": "max\n", "memory.current": "5\n", "memory.stat": ""}, math.MaxInt64},
		{"full", false, map[string]string{"memory.max": "1000\n", "memory.current": "1000\n", "memory.stat": "anon 1000\n"}, 0},
		{"full of files", false, map[string]string{"memory.max": "1000\n", "memory.current": "900\n",
			"memory.stat": "anon 100\ninactive_file 300\nactive_file 200\n"}, 600},
		{"version 1", true, map[string]string{"memory.limit_in_bytes": "1000\n", "memory.usage_in_bytes": "900\n",
			"memory.stat": "inactive_file 7\ntotal_inactive_file 300\ntotal_active_file 0\n"}, 400},
		{"no limit in version 1, and the cache has grown since the usage was read", true, map[string]string{
			"memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "10000\n",
			"memory.stat": "total_inactive_file 8000\ntotal_active_file 8000\n"}, 9223372036854771712},
	} {
		dir := t.TempDir()
		for name, text := range test.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryRoom(dir, test.v1); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
