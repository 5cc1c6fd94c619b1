package tracefile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/output"
)

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "no"), "no: no such file or directory"},
		{dir, "is a directory, not a trace"},
		{file("empty", ""), "is empty, not a trace"},
	} {
		if _, err := Open(t.Context(), test.path, nil); err == nil || !strings.HasSuffix(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: %v, want %q", test.path, err, test.want)
		}
	}
	for _, test := range []struct {
		content    string
		form       Form
		wire, text string
	}{
		{"go 1.22 trace\x00\x00\x00", Wire, "", "is already in the wire format"},
		{"Trace Go1.22\n", Text, "loupe tracefile wire", ""},
		{"\n# a comment\n\t# another\n Trace Go1.22\n", Text, "loupe tracefile wire", ""},
		{"# a comment", Other, "not a Go execution trace", "not a Go execution trace"},
		{"\x7fELF", Other, `does not start with "go 1."`, `does not start with "Trace Go1."`},
		{"g", Other, "not a Go execution trace", "not a Go execution trace"},
		{"\x1f\x8b\x08", Other, "compressed with gzip", "compressed with gzip"},
	} {
		in := open(t, file("f", test.content))
		wire, text := in.NeedWire(), in.NeedText()
		if in.Form() != test.form || (wire == nil) != (test.wire == "") || (text == nil) != (test.text == "") ||
			wire != nil && !strings.Contains(wire.Error(), test.wire) || text != nil && !strings.Contains(text.Error(), test.text) {
			t.Errorf("%q: form %d, wire: %v, text: %v", test.content, in.Form(), wire, text)
		}
	}
	if _, err := Open(t.Context(), Stdin, failing{}); err == nil || err.Error() != "reading standard input: broken" {
		t.Errorf("standard input that fails: %v", err)
	}
}

// failing fails to be read or written.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("broken") }
func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestIsFile recognises an output that is the input.
func TestIsFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "out"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("third"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("out", link); err != nil {
		t.Fatal(err)
	}
	in := open(t, path)
	if !in.IsFile(link) || in.IsFile(filepath.Join(dir, "no")) || in.IsFile(os.DevNull) {
		t.Error("the input is not recognised as an output")
	}
}

// formats are all ways to write events.
var formats = []ConvertOptions{as(export.Perfetto), as(export.Chrome, export.Options{Threads: true}), as(export.CSV), as(export.Go),
	as(export.Text), profiled("block"), profiled("mutex"), profiled("sched"), profiled("create"), profiled("goroutine"), profiled("cpu")}

// as returns the options for a format.
func as(name string, opt ...export.Options) ConvertOptions {
	f, err := export.Formats().Find(name)
	if err != nil {
		panic(err)
	}
	return ConvertOptions{Format: f, Options: append(opt, export.Options{})[0]}
}

// profiled returns the options for a type of profile.
func profiled(kind string) ConvertOptions { return as(export.Pprof, export.Options{Profile: kind}) }

// TestWriteErrors writes to a full disk: each verb says so, and names the file.
func TestWriteErrors(t *testing.T) {
	path := record(t, latest(t))
	verbs := map[string]func(*Output) error{
		"text": func(out *Output) error { _, err := ToText(t.Context(), out, open(t, path), false); return err },
		"merge processes": func(out *Output) error {
			_, err := MergeProcesses(t.Context(), out, []string{path, path}, MergeOptions{Format: as(export.Chrome).Format, Align: AlignAuto, Names: []string{"a", "b"}})
			return err
		},
		"merge parts": func(out *Output) error {
			_, err := MergeParts(t.Context(), out, []string{path, path}, MergeOptions{Format: as(export.Go).Format})
			return err
		},
	}
	for _, opt := range formats {
		verbs[opt.Format.Name+opt.Profile] = func(out *Output) error {
			_, err := Convert(t.Context(), out, open(t, path), opt, &Selection{})
			return err
		}
	}
	for name, verb := range verbs {
		out, err := output.Create(t.Context(), "/dev/full", output.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err = verb(out); err == nil {
			err = out.Commit()
		}
		if !errors.Is(err, syscall.ENOSPC) || err.Error() != "cannot write /dev/full: no space left on device" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestInterrupted ends each verb by its context.
func TestInterrupted(t *testing.T) {
	path := record(t, latest(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := output.Create(t.Context(), os.DevNull, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, textErr := ToText(ctx, out, open(t, path), false)
	_, statErr := Stat(ctx, open(t, path), StatOptions{})
	_, convertErr := Convert(ctx, out, open(t, path), as(export.Text), &Selection{})
	_, partsErr := MergeParts(ctx, out, []string{path}, MergeOptions{Format: as(export.Go).Format})
	_, mergeErr := MergeProcesses(ctx, out, []string{path}, MergeOptions{Format: as(export.Perfetto).Format, Names: []string{"a"}})
	for _, err := range []error{textErr, statErr, convertErr, partsErr, mergeErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

// TestDamage cuts traces at many places and changes bytes: whatever is done with them ends, and what is written of what
// precedes the damage is whole.
func TestDamage(t *testing.T) {
	for _, r := range releases(t) {
		data := contentOf(t, record(t, r))
		for i := range 12 {
			damaged := bytes.Clone(data[:len(data)*(i+1)/13])
			if i%2 == 1 {
				damaged = bytes.Clone(data)
				damaged[len(data)*i/13] ^= 0xff
			}
			opt := formats[i%len(formats)]
			var err error
			path := made(t, func(out *Output) error {
				in, openErr := Open(t.Context(), Stdin, bytes.NewReader(damaged))
				if openErr != nil {
					return openErr
				}
				_, err = Convert(t.Context(), out, in, opt, &Selection{})
				if !IsDamage(err) && err != nil {
					t.Errorf("%v, %d: %v", r, i, err)
				}
				return nil
			})
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, %d: not one line: %v", r, i, err)
			}
			if opt.Format.Name != export.Go {
				continue
			}
			if s, err := Stat(t.Context(), open(t, path), StatOptions{}); err != nil || s.Err != nil {
				t.Errorf("%v, %d: what is written cannot be read: %v, %v", r, i, err, s)
			}
		}
	}
}

// FuzzVerbs gives any bytes to what reads traces.
func FuzzVerbs(f *testing.F) {
	f.Add([]byte("go 1.22 trace\x00\x00\x00"), uint8(0))
	f.Add([]byte("Trace Go1.23\nEventBatch gen=1 m=2 time=3 size=0\n"), uint8(1))
	for _, name := range []string{"go1.20.14", "go1.23.12", "go1.26.11"} {
		if data, err := tiny(name); err != nil {
			f.Error(err)
		} else {
			f.Add(data, uint8(3))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		in, err := Open(t.Context(), Stdin, bytes.NewReader(data))
		if err != nil {
			return
		}
		out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if in.Form() == Text {
			ToWire(t.Context(), out, in, which%2 == 0)
			return
		}
		if which == 0 {
			ToText(t.Context(), out, in, true)
			return
		}
		sel := &Selection{}
		if which%2 == 0 {
			sel.From, _ = ParseMoment("10us")
		}
		Convert(t.Context(), out, in, formats[int(which)%len(formats)], sel)
		if in, err = Open(t.Context(), Stdin, bytes.NewReader(data)); err == nil {
			Stat(t.Context(), in, StatOptions{By: ByStart, Top: int(which)})
		}
	})
}

// tiny returns one of the small traces of package trace.
func tiny(name string) ([]byte, error) {
	f, err := os.Open("../../trace/testdata/tiny/" + name + ".trace.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
