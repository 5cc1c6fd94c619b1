package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/export"
)

// tiny writes one of the small traces of package trace into a file.
func tiny(t *testing.T, release string) string {
	t.Helper()
	f, err := os.Open("../../trace/testdata/tiny/go" + release + ".trace.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return fileWith(t, release+".trace", data)
}

// fileWith makes a file.
func fileWith(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// content returns what a file has.
func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tracefileTest runs loupe tracefile.
func tracefileTest(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, newFake(), append([]string{"tracefile"}, args...)...)
}

const newest, oldest, middle = "1.26.11", "1.18.10", "1.22.12"

func TestTracefileUsage(t *testing.T) {
	file := tiny(t, newest)
	for _, test := range []struct {
		line string
		want string
	}{
		{"sta FILE", `unknown command "sta", did you mean stat?`},
		{"text", "missing FILE"},
		{"stat FILE FILE", "expected one FILE, got 2"},
		{"text FILE --json", "both go to stdout"},
		{"text FILE -o FILE", "is the input file"},
		{"stat FILE --by thread", "--by thread: must be one of start, creator, none"},
		{"stat FILE --sort name", "--sort name: must be one of running, runnable"},
		{"stat FILE --top -1", "negative"},
		{"validate FILE --limit -1", "negative"},
		{"convert FILE -o x", "missing --format go|text|perfetto|chrome"},
		{"convert FILE --format go", "missing -o FILE"},
		{"convert FILE -o x --format svg", `unknown format "svg": must be one of go, text, perfetto, chrome, pprof, csv`},
		{"convert FILE -o x --format pprof", "missing --type create|block"},
		{"convert FILE -o x --format pprof --type heap", `unknown profile type "heap"`},
		{"convert FILE -o x --format go --type block", "--type requires --format pprof"},
		{"convert FILE -o x --format csv --threads", "--threads requires"},
		{"convert FILE -o x --format pprof --type sched --reason x", "--reason requires --type block or mutex"},
		{"convert FILE -o - --format csv --json", "both go to stdout"},
		{"convert FILE -o FILE --format go", "is the input file"},
		{"filter FILE -o x", "missing filter"},
		{"filter FILE -o x --g 0", `--g "0" is not a goroutine ID`},
		{"filter FILE -o x --g 1,x", `--g "x" is not a goroutine ID`},
		{"filter FILE -o x --func (", "missing closing"},
		{"filter FILE -o x --from soon", "--from soon is neither a duration"},
		{"filter FILE -o x --to -1s", "--to -1s is negative"},
		{"merge FILE", "expected at least two FILEs"},
		{"merge FILE FILE -o x", "missing --format"},
		{"merge FILE FILE -o x --format csv", `cannot merge traces to format "csv": must be one of go, text, perfetto, chrome`},
		{"merge FILE FILE -o FILE --format go", "is the input file"},
		{"merge FILE - -o x --format go", "cannot merge standard input"},
		{"merge FILE FILE -o x --format go --align wall", "--align requires"},
		{"merge FILE FILE -o x --format chrome --align clock", "--align clock: must be one of"},
		{"merge FILE FILE -o x --format chrome --name a", "1 name (--name) for 2 files"},
	} {
		var args []string
		for _, word := range strings.Fields(test.line) {
			args = append(args, strings.ReplaceAll(word, "FILE", file))
		}
		r := tracefileTest(t, args...)
		if r.status != exitUsage || r.out != "" || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 || !strings.Contains(r.errOut, "--help") {
			t.Errorf("%s: status %d, stdout %q, stderr %q; want %q", test.line, r.status, r.out, r.errOut, test.want)
		}
	}
	if r := tracefileTest(t); r.status != exitDone || !strings.Contains(r.out, "validate") {
		t.Errorf("no verb: %+v", r)
	}
}

// TestTracefileBadInput gives each verb files that are no trace, or none of the form that it needs.
func TestTracefileBadInput(t *testing.T) {
	wire := tiny(t, newest)
	text := filepath.Join(t.TempDir(), "a.txt")
	if r := tracefileTest(t, "text", wire, "-o", text); r.status != exitDone {
		t.Fatal(r)
	}
	out := filepath.Join(t.TempDir(), "out")
	verbs := map[string][]string{"text": nil, "wire": nil, "stat": nil, "validate": nil, "convert": {"--format", "csv", "-o", out},
		"filter": {"--g", "1", "-o", out}, "merge": {wire, "--format", "chrome", "-o", out}}
	for verb, flags := range verbs {
		for name, test := range map[string]struct{ path, want string }{
			"missing":   {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
			"directory": {t.TempDir(), "is a directory"},
			"empty":     {fileWith(t, "e", nil), "is empty"},
			"other":     {fileWith(t, "o", []byte("hello")), "is not a Go execution trace"},
			"future":    {fileWith(t, "v", []byte("go 1.99 trace\x00\x00\x00")), "version not supported"},
			"form":      {map[bool]string{true: wire, false: text}[verb == "wire"], "wire"},
		} {
			if verb == "wire" && name == "future" {
				continue // it is in the wrong form too
			}
			r := tracefileTest(t, append([]string{verb, test.path}, flags...)...)
			if r.status != exitFailed || r.out != "" || !strings.Contains(r.errOut, test.want) || strings.Count(r.errOut, "\n") != 1 {
				t.Errorf("%s of %s: status %d, stdout %q, stderr %q; want %q", verb, name, r.status, r.out, r.errOut, test.want)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a failed verb has left a file behind")
	}
}

func TestTracefileText(t *testing.T) {
	for _, release := range []string{newest, middle, oldest} {
		file := tiny(t, release)
		dir := t.TempDir()
		text, wire := filepath.Join(dir, "text"), filepath.Join(dir, "wire")
		if r := tracefileTest(t, "text", "--exact", file, "-o", text); r.status != exitDone || r.out != "" || !strings.Contains(r.errOut, "events to "+text) {
			t.Errorf("%+v", r)
		}
		if r := tracefileTest(t, "wire", "--exact", text, "-o", wire); r.status != exitDone || !bytes.Equal(content(t, wire), content(t, file)) {
			t.Errorf("go%s: not the same file: %+v", release, r)
		}
		if r := tracefileTest(t, "text", "--exact", file); r.out != string(content(t, text)) || r.errOut != "" {
			t.Errorf("go%s: to stdout another text: %q", release, r.errOut)
		}
		var stdout, stderr bytes.Buffer
		a := &app{Env: Env{Args: []string{"tracefile", "wire", "-", "-o", wire, "--json"}, Stdin: bytes.NewReader(content(t, text)), Stdout: &stdout,
			Stderr: &stderr, Getenv: os.Getenv}, system: newFake()}
		var done writtenJSON
		if status := a.run(t.Context()); status != exitDone {
			t.Errorf("go%s: status %d: %s", release, status, stderr.String())
		}
		if err := json.Unmarshal(stdout.Bytes(), &done); err != nil || done.File != wire || done.Events < 100 || done.Bytes < 1000 ||
			done.Inputs[0] != "-" || !strings.HasPrefix(done.GoFormat, "Go1.") {
			t.Errorf("go%s: %+v, %v", release, done, err)
		}
	}
}

func TestTracefileStat(t *testing.T) {
	file := tiny(t, newest)
	r := tracefileTest(t, "stat", file)
	for _, want := range []string{"a trace in the format of Go 1.26 and 1.27", "none lost", "GOROUTINES by the function", "runtime.main  1 goroutine",
		"  running  ", "WAITS by place", "SCHEDULER LATENCY", "GARBAGE COLLECTOR", "EVENTS\n  ", "--system counts them"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	if r.status != exitDone || r.errOut != "" {
		t.Errorf("status %d, stderr %q", r.status, r.errOut)
	}
	var doc struct {
		File, Format, Begin, By, Error string
		Nanoseconds, Events, Lost      int64
		Kinds                          map[string]int64
		Goroutines                     struct{ Total, Created, AtStart, Ended, Alive int64 }
		Groups                         []map[string]any
		Waits                          []struct {
			Reason string
			Total  int64 `json:"totalNanoseconds"`
			Stack  []struct{ Func string }
		}
		Latency map[string]struct{ Count int64 }
		Heap    struct{ MinBytes, MaxBytes int64 }
	}
	r = tracefileTest(t, "stat", file, "--json", "--by", "none", "--top", "0", "--system")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitDone {
		t.Fatalf("%v: %+v", err, r)
	}
	sum := int64(0)
	for _, n := range doc.Kinds {
		sum += n
	}
	if doc.File != file || doc.Format != "Go1.26" || doc.Begin == "" || doc.By != "none" || sum != doc.Events || doc.Events < 100 || doc.Nanoseconds < 1000 ||
		int64(len(doc.Groups)) != doc.Goroutines.Total || doc.Goroutines.Total-doc.Goroutines.Ended != doc.Goroutines.Alive ||
		doc.Goroutines.Created != doc.Kinds["GoCreate"] || len(doc.Waits) == 0 || len(doc.Waits[0].Stack) == 0 ||
		doc.Latency["all"].Count == 0 || doc.Heap.MinBytes == 0 || doc.Error != "" {
		t.Errorf("%+v", doc)
	}
	cut := fileWith(t, "cut", content(t, file)[:len(content(t, file))-10])
	r = tracefileTest(t, "stat", cut)
	if r.status != exitFailed || !strings.Contains(r.out, "EVENTS") || !strings.Contains(r.errOut, "the summary covers the part before the damage") {
		t.Errorf("a truncated trace: %+v", r)
	}
	r = tracefileTest(t, "stat", cut, "--json")
	if doc.Error = ""; json.Unmarshal([]byte(r.out), &doc) != nil || doc.Error == "" || r.status != exitFailed {
		t.Errorf("a truncated trace: %+v", r)
	}
}

func TestTracefileValidate(t *testing.T) {
	for _, release := range []string{newest, middle, oldest} {
		file := tiny(t, release)
		if r := tracefileTest(t, "validate", file); r.status != exitDone || !strings.HasPrefix(r.out, "valid  "+file) || r.errOut != "" {
			t.Errorf("go%s: %+v", release, r)
		}
	}
	data := content(t, tiny(t, newest))
	bad := fileWith(t, "bad", append(data[:len(data)-100], "nonsense"...))
	r := tracefileTest(t, "validate", bad)
	if r.status != exitFailed || !strings.Contains(r.out, "error    offset ") || !strings.Contains(r.out, "not valid  "+bad) || r.errOut != "" {
		t.Errorf("%+v", r)
	}
	var doc struct {
		Valid    bool
		Errors   int
		Counts   map[string]int
		Problems []struct {
			Severity, Code, Text string
			Offset               int64
		}
	}
	r = tracefileTest(t, "validate", bad, "--json", "--limit", "0")
	if err := json.Unmarshal([]byte(r.out), &doc); err != nil || r.status != exitFailed || doc.Valid || doc.Errors == 0 || len(doc.Counts) == 0 ||
		doc.Problems[0].Offset == 0 || doc.Problems[0].Text == "" {
		t.Errorf("%v: %+v", err, r)
	}
}

func TestTracefileConvert(t *testing.T) {
	for _, release := range []string{newest, oldest} {
		file := tiny(t, release)
		for _, format := range export.Formats().For(export.Convert).Names() {
			out := filepath.Join(t.TempDir(), "out")
			args := []string{"convert", file, "-o", out, "--format", format}
			if format == export.Pprof {
				args = append(args, "--type", "create")
			}
			r := tracefileTest(t, args...)
			data := content(t, out)
			good := map[string]func() bool{
				export.Perfetto: func() bool { return data[0] == 0x0a },
				export.Chrome:   func() bool { return json.Valid(data) },
				export.Pprof:    func() bool { _, err := profile.ParseData(data); return err == nil },
				export.CSV:      func() bool { return bytes.HasPrefix(data, []byte("time,kind,g,")) },
				export.Go:       func() bool { return bytes.HasPrefix(data, []byte("go 1.2")) },
				export.Text:     func() bool { return bytes.HasPrefix(data, []byte("Trace Go1.2")) },
			}[format]
			if r.status != exitDone || r.out != "" || !good() || !strings.Contains(r.errOut, "events to "+out) {
				t.Errorf("go%s to %s: %+v, %.40q", release, format, r, data)
			}
			if r := tracefileTest(t, append(args, "--json")...); r.errOut != "" || !strings.Contains(r.out, `"format": "`+format+`"`) {
				t.Errorf("go%s to %s: %+v", release, format, r)
			}
		}
	}
	if r := tracefileTest(t, "convert", tiny(t, newest), "-o", "-", "--format", "csv"); r.status != exitDone || r.errOut != "" || strings.Count(r.out, "\n") < 100 {
		t.Errorf("to stdout: %+v", r)
	}
}

// TestTracefilePartial converts a truncated trace: nothing is written, or on request what precedes the damage.
func TestTracefilePartial(t *testing.T) {
	data := content(t, tiny(t, newest))
	cut := fileWith(t, "cut", data[:len(data)-10])
	for _, verb := range [][]string{{"convert", "--format", "go"}, {"text"}, {"filter", "--g", "1"}} {
		out := filepath.Join(t.TempDir(), "out")
		args := append(verb, cut, "-o", out)
		r := tracefileTest(t, args...)
		if _, err := os.Stat(out); err == nil || r.status != exitFailed || !strings.Contains(r.errOut, "--partial writes the part before the damage") || strings.Count(r.errOut, "\n") != 1 {
			t.Errorf("%v: %+v, %v", verb, r, err)
		}
		r = tracefileTest(t, append(args, "--partial")...)
		if r.status != exitDone || !strings.Contains(r.errOut, "the part before the damage was written") || len(content(t, out)) == 0 {
			t.Errorf("%v: %+v", verb, r)
		}
	}
}

func TestTracefileFilter(t *testing.T) {
	file := tiny(t, newest)
	out := filepath.Join(t.TempDir(), "out")
	for _, flags := range []string{"--g 1", "--func ^main", "--reason chan", "--from 0s --to 1h", "--g 1 --format csv", "--to 2100-01-01T00:00:00Z --format perfetto"} {
		r := tracefileTest(t, append([]string{"filter", file, "-o", out}, strings.Fields(flags)...)...)
		if r.status != exitDone || !strings.Contains(r.errOut, " events to ") || len(content(t, out)) < 100 {
			t.Errorf("%s: %+v", flags, r)
		}
		if r := tracefileTest(t, "validate", out); !strings.Contains(flags, "--format") && r.status != exitDone {
			t.Errorf("%s: %+v", flags, r)
		}
	}
	os.Remove(out)
	r := tracefileTest(t, "filter", file, "-o", out, "--func", "nowhere")
	if _, err := os.Stat(out); err == nil || r.status != exitFailed || !strings.Contains(r.errOut, "no goroutine in ") {
		t.Errorf("%+v", r)
	}
}

func TestTracefileMerge(t *testing.T) {
	a, b, old := tiny(t, newest), tiny(t, "1.25.14"), tiny(t, oldest)
	out := filepath.Join(t.TempDir(), "out")
	for _, format := range []string{"perfetto", "chrome"} {
		r := tracefileTest(t, "merge", a, b, old, "-o", out, "--format", format)
		if r.status != exitDone || !strings.Contains(r.errOut, "started at the same moment: "+old) || len(content(t, out)) < 1000 {
			t.Errorf("%s: %+v", format, r)
		}
		r = tracefileTest(t, "merge", a, b, "-o", out, "--format", format, "--json", "--name", "client", "--name", "server")
		var done writtenJSON
		if err := json.Unmarshal([]byte(r.out), &done); err != nil || r.status != exitDone || len(done.Inputs) != 2 || len(done.Notes) != 2 ||
			!bytes.Contains(content(t, out), []byte("server")) {
			t.Errorf("%s: %v, %+v", format, err, r)
		}
	}
	os.Remove(out)
	for _, other := range []string{b, old} {
		r := tracefileTest(t, "merge", a, other, "-o", out, "--format", "go")
		if _, err := os.Stat(out); err == nil || r.status != exitFailed || strings.Count(r.errOut, "\n") != 1 {
			t.Errorf("%+v", r)
		}
	}
	if r := tracefileTest(t, "merge", a, a, "-o", out, "--format", "go"); r.status != exitDone || !strings.Contains(r.errOut, "nothing that the other files do not contain") {
		t.Errorf("%+v", r)
	}
}

// TestTracefileStdout writes to a pipe whose reader has read enough, and to a full disk.
func TestTracefileStdout(t *testing.T) {
	file := tiny(t, newest)
	for _, args := range [][]string{{"text", file}, {"stat", file}, {"validate", file}, {"convert", file, "-o", "-", "--format", "csv"}} {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			to     *os.File
			status int
			want   string
		}{{out, exitDone, ""}, {full, exitFailed, "no space left on device"}} {
			var errOut lockedBuffer
			a := &app{Env: Env{Args: append([]string{"tracefile"}, args...), Stdout: test.to, Stderr: &errOut, Getenv: os.Getenv}, system: newFake()}
			if status := a.run(t.Context()); status != test.status || !strings.Contains(errOut.String(), test.want) || test.want == "" && errOut.String() != "" {
				t.Errorf("%v: status %d, stderr %q", args, status, errOut.String())
			}
			test.to.Close()
		}
	}
}

func TestTracefileCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"tracefile ":                    "validate\t",
		"tracefile stat x --by ":        "creator\n",
		"tracefile stat x --sort ":      "runnable\n",
		"tracefile convert x --format ": "perfetto\n",
		"tracefile convert x --type ":   "goroutine\n",
		"tracefile merge x --format ":   "chrome\n",
		"tracefile merge x --align ":    "wall\n",
	} {
		if r := run(t, newFake(), append([]string{"__complete"}, strings.Split(line, " ")...)...); !strings.Contains(r.out, want) {
			t.Errorf("%s: %q", line, r.out)
		}
	}
}
