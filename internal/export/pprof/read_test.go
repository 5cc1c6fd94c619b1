package pprof

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	rpprof "runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/testcmd"
)

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encoded returns a profile with a few samples, compressed.
func encoded(t testing.TB) []byte {
	t.Helper()
	b := NewBuilder(time.Unix(9, 0), Mapping{Start: 0x1000, End: 0x2000, File: "/bin/x"}, ValueType{"n", "count"})
	b.Add([]Location{at(0x1010, "leaf", "main")}, map[string]string{"k": "v"}, 7)
	b.Add([]Location{at(0x1020, "other")}, nil, 8)
	var out bytes.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRead(t *testing.T) {
	good := encoded(t)
	raw, err := decompress(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{good, raw} {
		if p, err := Read(bytes.NewReader(data)); err != nil || len(p.Sample) != 2 || p.Sample[0].Value[0] != 7 {
			t.Errorf("%v, %v", p, err)
		}
	}
	for _, name := range []string{"goroutine", "heap", "block", "threadcreate"} {
		var own bytes.Buffer
		if err := rpprof.Lookup(name).WriteTo(&own, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&own); err != nil {
			t.Errorf("profile %s of runtime/pprof: %v", name, err)
		}
	}
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":                {nil, "not a profile"},
		"text":                 {[]byte("goroutine profile: total 3\n"), "not a profile"},
		"ELF":                  {[]byte("\x7fELF\x02\x01\x01\x00\x00\x00"), "not a profile"},
		"gzip of text":         {zipped(t, []byte("hello, world")), "not a profile"},
		"gzip of nothing":      {zipped(t, nil), "not a profile"},
		"truncated gzip":       {good[:len(good)/2], "truncated"},
		"gzip header only":     {good[:5], "truncated"},
		"gzip with bad CRC":    {append(good[:len(good)-8:len(good)-8], 1, 2, 3, 4, 5, 6, 7, 8), "not a profile"},
		"truncated":            {raw[:len(raw)-3], "not a profile"},
		"gzip bomb":            {zipped(t, make([]byte, MaxBytes+1)), "too large: the limit is 64.0 MiB after decompression"},
		"many small records":   {zipped(t, bytes.Repeat([]byte{0x12, 0}, 8<<20)), "it would take about"},
		"many small labels":    {zipped(t, sampleOf(bytes.Repeat([]byte{0x1a, 0}, 8<<20))), "it would take about"},
		"many small lines":     {zipped(t, message(4, bytes.Repeat([]byte{0x22, 0}, 8<<20))), "it would take about"},
		"many small numbers":   {zipped(t, sampleOf(message(1, make([]byte, 40<<20)))), "it would take about"},
		"samples without type": {sampleOf(nil), "not a profile"},
	} {
		if p, err := Read(bytes.NewReader(test.data)); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// message returns a field of type bytes.
func message(field int, payload []byte) []byte {
	out := []byte{byte(field<<3 | wireBytes)}
	for n := len(payload); ; n >>= 7 {
		if n < 0x80 {
			return append(append(out, byte(n)), payload...)
		}
		out = append(out, byte(n)|0x80)
	}
}

func sampleOf(payload []byte) []byte { return message(fieldSample, payload) }

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, encoded(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(good); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		dir: "is a directory", fifo: "is not a regular file", "/dev/zero": "is not a regular file", filepath.Join(dir, "none"): "no such file or directory",
		"/proc/self/mem": "input/output error", "/proc/self/maps": "not a profile",
	} {
		if _, err := ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), "cannot read profile "+path+": "+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// FuzzRead holds that reading ends without a panic, and takes at most as much memory as estimated.
func FuzzRead(f *testing.F) {
	good := encoded(f)
	raw, _ := decompress(good)
	f.Add(good)
	f.Add(raw)
	f.Add(bytes.Repeat([]byte{0x12, 0}, 1000))
	f.Add(sampleOf(bytes.Repeat([]byte{0x1a, 0}, 1000)))
	f.Add(sampleOf(bytes.Repeat([]byte{0x1a, 2, 8, 0}, 1000)))
	f.Add(message(4, bytes.Repeat([]byte{0x22, 0}, 1000)))
	f.Add(bytes.Repeat(message(5, nil), 1000))
	f.Add(bytes.Repeat([]byte{0x32, 0}, 1000))
	f.Add(sampleOf(message(1, make([]byte, 1000))))
	f.Add(message(fieldComment, make([]byte, 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		size, err := memoryOf(data)
		if err != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := profile.ParseUncompressed(data)
		if err == nil {
			err = p.CheckValid()
		}
		runtime.ReadMemStats(&after)
		const fixed = 256 << 10 // of maps and other goroutines
		if used := int64(after.TotalAlloc - before.TotalAlloc); used > 2*size+fixed {
			t.Errorf("parsing %d bytes allocated %d bytes, estimate %d", len(data), used, size)
		}
		read, readErr := Read(bytes.NewReader(data))
		if (readErr == nil) != (err == nil) && !(len(data) > 2 && data[0] == 0x1f) {
			t.Errorf("Read: %v, parser: %v", readErr, err)
		}
		if readErr == nil && len(read.Sample) != len(p.Sample) {
			t.Errorf("%d samples, want %d", len(read.Sample), len(p.Sample))
		}
	})
}

func TestComparable(t *testing.T) {
	typed := func(types ...ValueType) *profile.Profile {
		return NewBuilder(time.Unix(1, 0), Mapping{}, types...).Profile()
	}
	n, d := ValueType{"n", "count"}, ValueType{"d", "nanoseconds"}
	if err := Comparable(typed(n, d), typed(n, d)); err != nil {
		t.Error(err)
	}
	for want, old := range map[string]*profile.Profile{
		"its sample types are d/nanoseconds, n/count, those of the new profile are n/count, d/nanoseconds": typed(d, n),
		"its sample types are n/count, those":            typed(n),
		"its sample types are n/count, d/seconds, those": typed(n, ValueType{"d", "seconds"}),
		"its sample types are unknown, those":            {},
	} {
		if err := Comparable(typed(n, d), old); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	negative := typed(n)
	negative.Sample = []*profile.Sample{{Value: []int64{-1}}}
	if err := Comparable(typed(n), negative); err == nil || !strings.Contains(err.Error(), "negative") {
		t.Error(err)
	}
}

// TestDifference compares a difference with what go tool pprof -diff_base computes.
func TestDifference(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, values map[string]int64) (*profile.Profile, string) {
		b := NewBuilder(time.Unix(9, 0), Mapping{}, ValueType{"n", "count"}, ValueType{"d", "nanoseconds"})
		b.Prefer("d")
		b.Lasted(time.Second)
		for _, f := range []string{"grew", "shrank", "same", "new", "gone"} {
			if v := values[f]; v > 0 {
				b.Add([]Location{{Lines: []event.Frame{{Func: f}}}, {Lines: []event.Frame{{Func: "main"}}}}, nil, 1, v)
			}
		}
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err == nil {
			err = b.Write(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		return b.Profile(), path
	}
	old, oldPath := make("old", map[string]int64{"grew": 10e6, "shrank": 50e6, "same": 30e6, "gone": 10e6})
	now, nowPath := make("now", map[string]int64{"grew": 45e6, "shrank": 20e6, "same": 30e6, "new": 5e6})
	old.Comments, now.Comments = []string{"before"}, []string{"after"}
	diff, err := Difference(now, old)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(diff.Comments, "|"); got != "after|old profile: before" {
		t.Errorf("comments %q", got)
	}
	diff.Comments = nil // which pprof shows
	diffPath := filepath.Join(dir, "diff")
	f, err := os.Create(diffPath)
	if err == nil {
		err = diff.Write(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for _, view := range []string{"-top", "-traces", "-tree"} {
		got, want := pprofOutput(t, view, diffPath), pprofOutput(t, view, "-diff_base", oldPath, nowPath)
		if got != want || !strings.Contains(got, "grew") {
			t.Errorf("%s: got\n%s\nwant\n%s", view, got, want)
		}
	}
	if top := pprofOutput(t, "-top", diffPath); !strings.Contains(top, "of 100ms total") || !strings.Contains(top, "-30ms") {
		t.Errorf("percentages are not of the base:\n%s", top)
	}
}

func pprofOutput(t *testing.T, args ...string) string {
	t.Helper()
	out, err := testcmd.Combined(testcmd.Command(t, "go", append([]string{"tool", "pprof", "-symbolize=none"}, args...)...))
	if err != nil {
		t.Fatalf("pprof %q: %v: %s", args, err, out)
	}
	return string(out)
}
