package tracefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/export"
	"github.com/loupe-go/loupe/internal/output"
	"github.com/loupe-go/loupe/internal/testtarget"
	"github.com/loupe-go/loupe/trace"
	"github.com/loupe-go/loupe/trace/raw"
)

// chromeEvent is an event of a Chrome document.
type chromeEvent struct {
	Ph   string
	PID  int
	TID  uint64
	TS   float64
	Name string
	ID   any
	Args map[string]any
}

// mergeChrome merges files, and reads what is written.
func mergeChrome(t *testing.T, paths []string, opt MergeOptions) ([]chromeEvent, Converted) {
	t.Helper()
	opt.Format = as(export.Chrome).Format
	var done Converted
	path := made(t, func(out *Output) error {
		var err error
		done, err = MergeProcesses(t.Context(), out, paths, opt)
		return err
	})
	var doc struct{ TraceEvents []chromeEvent }
	if err := json.Unmarshal(contentOf(t, path), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.TraceEvents, done
}

// TestMergeChrome merges traces as Chrome documents: each process is what its trace is alone, and IDs are their own.
func TestMergeChrome(t *testing.T) {
	all := releases(t)
	for _, test := range []struct {
		releases []int // indexes, from the end if negative
		align    Align
		wall     bool
		note     string
	}{
		{[]int{-2, -1}, AlignAuto, true, "by the time of day"},
		{[]int{-1, -2, -1}, AlignWall, true, "by the time of day"},
		{[]int{0, -1}, AlignAuto, false, "go" + testtarget.Minor(all[0].version)},
		{[]int{-2, -1}, AlignBegin, false, "started at the same moment"},
	} {
		var paths, names []string
		var alone [][]chromeEvent
		for i, n := range test.releases {
			path := record(t, all[(n+len(all))%len(all)])
			paths, names = append(paths, path), append(names, string(rune('a'+i)))
			file, _ := converted(t, path, as(export.Chrome, export.Options{Process: names[i], Threads: true}), &Selection{})
			var doc struct{ TraceEvents []chromeEvent }
			if err := json.Unmarshal(contentOf(t, file), &doc); err != nil {
				t.Fatal(err)
			}
			alone = append(alone, doc.TraceEvents)
		}
		merged, done := mergeChrome(t, paths, MergeOptions{Align: test.align, Threads: true, Names: names})
		if done.Wall != (test.wall || test.align == AlignBegin) || !strings.Contains(strings.Join(done.Notes, "\n"), test.note) {
			t.Errorf("%v %s: %+v", test.releases, test.align, done)
		}
		begins := beginnings(t, paths)
		for i := range paths {
			shift := 0.0
			if test.wall {
				shift = float64(begins[i]-slices.Min(begins)) / 1e3
			}
			part := slices.DeleteFunc(slices.Clone(merged), func(e chromeEvent) bool { return e.PID != i+1 && e.PID != i+1+1<<22 })
			compareChrome(t, part, alone[i], shift, i+1)
		}
		checkIDs(t, merged)
	}
}

// TestMergeRecordings merges recordings of Loupe in formats without clock snapshots: their times are those of the day.
func TestMergeRecordings(t *testing.T) {
	day := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC).UnixNano()
	var paths []string
	for i, v := range []raw.Version{raw.Go122, raw.Go123, raw.Go126} {
		path := filepath.Join(t.TempDir(), "recording")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := trace.NewWriter(f, trace.WriterOptions{Version: v})
		if err != nil {
			t.Fatal(err)
		}
		for n := range int64(10) {
			e := event.Event{Time: day + int64(i)*5e9 + n*1e6, Kind: event.GoStart + event.Kind(n%2)*(event.GoBlock-event.GoStart), G: 7, TID: 5, P: event.ProcOf(0)}
			if err := w.Write(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	slices.Reverse(paths)
	_, done := mergeChrome(t, paths, MergeOptions{Align: AlignAuto, Names: []string{"a", "b", "c"}})
	notes := strings.Join(done.Notes, "\n")
	if !done.Wall || done.First/1e6 != day/1e6 || (done.Last-done.First)/1e6 != 10009 || !strings.Contains(notes, "starts 10s after the first trace, by the time of day") {
		t.Errorf("%+v from %d, which is %d after %d", done, done.First, done.First-day, day)
	}
}

// beginnings returns the times at which traces begin.
func beginnings(t *testing.T, paths []string) []int64 {
	parts, err := lookAtAll(t.Context(), paths, &MergeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var list []int64
	for _, p := range parts {
		list = append(list, p.first)
	}
	return list
}

// compareChrome compares the events of a process with those of its trace alone, which are so much earlier. Tracks of the
// process's counters may begin at another time.
func compareChrome(t *testing.T, got, want []chromeEvent, shift float64, pid int) {
	t.Helper()
	counter := func(e chromeEvent) bool { return e.Ph == "C" }
	got, want = slices.DeleteFunc(got, counter), slices.DeleteFunc(slices.Clone(want), counter)
	if len(got) != len(want) || len(got) < 1000 {
		t.Fatalf("process %d: %d events, want %d", pid, len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		wantPID := pid
		if w.PID != 1 {
			wantPID += 1 << 22
		}
		if w.Ph != "M" { // which has no time
			w.TS += shift
		}
		if g.Ph != w.Ph || g.TID != w.TID || g.Name != w.Name || g.PID != wantPID || math.Abs(g.TS-w.TS) > 0.0015 {
			t.Fatalf("process %d, event %d: %+v, want %+v", pid, i, g, w)
		}
	}
}

// checkIDs checks that flows and asynchronous events have IDs of one process only.
func checkIDs(t *testing.T, list []chromeEvent) {
	t.Helper()
	of := map[any]int{}
	starts, ends := map[any]bool{}, 0
	for _, e := range list {
		if e.ID == nil {
			continue
		}
		if pid, ok := of[e.ID]; ok && pid != e.PID {
			t.Fatalf("ID %v is of process %d and %d", e.ID, pid, e.PID)
		}
		of[e.ID] = e.PID
		switch e.Ph {
		case "s":
			starts[e.ID] = true
		case "f":
			if ends++; !starts[e.ID] {
				t.Fatalf("flow %v ends without a begin", e.ID)
			}
		}
	}
	if len(starts) < 100 || ends < 100 {
		t.Errorf("%d flows, %d ends", len(starts), ends)
	}
}

// packet is what a merge changes in a Perfetto packet.
type packet struct {
	sequence   uint64
	time       uint64
	uuid       uint64   // of the event's track, or of the track that is described
	parent     uint64   // of the track that is described
	flows      []uint64 // that begin or end
	descriptor bool
	rest       string // everything else
}

// packetsOf reads a Perfetto trace.
func packetsOf(t *testing.T, data []byte) (list []packet) {
	t.Helper()
	each := func(b []byte, f func(field)) {
		for len(b) > 0 {
			fd, n := nextField(b)
			if n == 0 {
				t.Fatal("not protobuf")
			}
			f(fd)
			b = b[n:]
		}
	}
	each(data, func(f field) {
		var p packet
		var rest bytes.Buffer
		each(f.content, func(f field) {
			switch f.number {
			case 8:
				p.time = f.value
			case 10:
				p.sequence = f.value
			case 6: // the clock, of which each trace alone has its own
			case 11, 60:
				p.descriptor = f.number == 60
				each(f.content, func(f field) {
					switch {
					case f.number == 11 && !p.descriptor || f.number == 1 && p.descriptor:
						p.uuid = f.value
					case f.number == 5 && p.descriptor:
						p.parent = f.value
					case f.number == 47 || f.number == 48:
						p.flows = append(p.flows, f.value)
					case p.descriptor && (f.number == 2 || f.number == 3):
						// the name of the process, which is differently written with an ID
					default:
						rest.Write(appendBytesField(nil, f.number+f.value, f.content))
					}
				})
			default:
				rest.Write(appendBytesField(nil, f.number+f.value, f.content))
			}
		})
		p.rest = rest.String()
		list = append(list, p)
	})
	return list
}

// TestMergePerfetto merges traces for Perfetto: each part is its trace alone, in a range of numbers of its own.
func TestMergePerfetto(t *testing.T) {
	all := releases(t)
	last, before := record(t, all[len(all)-1]), record(t, all[len(all)-2])
	paths := []string{last, before, last}
	merged := packetsOf(t, contentOf(t, made(t, func(out *Output) error {
		_, err := MergeProcesses(t.Context(), out, paths, MergeOptions{Format: as(export.Perfetto).Format, Align: AlignWall, Names: []string{"a", "b", "c"}})
		return err
	})))
	begins := beginnings(t, paths)
	for i, path := range paths {
		file, _ := converted(t, path, as(export.Perfetto), &Selection{})
		alone := packetsOf(t, contentOf(t, file))
		var part []packet
		for _, p := range merged {
			if p.sequence/sequencesOfPart == uint64(i) {
				part = append(part, p)
			}
		}
		isCounter := func(p packet) bool { return !p.descriptor && p.uuid&(1<<partShift-1) <= 9 }
		part, alone = slices.DeleteFunc(part, isCounter), slices.DeleteFunc(alone, isCounter)
		if len(part) != len(alone) || len(part) < 1000 {
			t.Fatalf("part %d has %d packets, want %d", i, len(part), len(alone))
		}
		shift, offset := uint64(begins[i]-slices.Min(begins)), uint64(i)<<partShift
		for j, want := range alone {
			want.sequence += uint64(i) * sequencesOfPart
			if want.time != 0 || !want.descriptor && want.uuid != 0 {
				want.time += shift
			}
			for _, id := range []*uint64{&want.uuid, &want.parent} {
				if *id != 0 {
					*id += offset
				}
			}
			for k := range want.flows {
				want.flows[k] += offset
			}
			got := part[j]
			if got.sequence != want.sequence || got.uuid != want.uuid || got.parent != want.parent || !slices.Equal(got.flows, want.flows) ||
				got.rest != want.rest || got.time != want.time {
				t.Fatalf("part %d, packet %d: %+v, want %+v", i, j, got, want)
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	all := releases(t)
	flight := recordFlight(t)
	old, first, last := record(t, all[0]), record(t, all[1]), record(t, all[len(all)-1])
	processes := func(opt MergeOptions, paths ...string) error {
		out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		opt.Names = make([]string, len(paths))
		_, err = MergeProcesses(t.Context(), out, paths, opt)
		return err
	}
	parts := func(paths ...string) error {
		out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		_, err = MergeParts(t.Context(), out, paths, MergeOptions{Format: as(export.Go).Format})
		return err
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{processes(MergeOptions{Format: as(export.Perfetto).Format, Align: AlignWall}, first, last), "has no time of day"},
		{processes(MergeOptions{Format: as(export.CSV).Format}, first, last), "cannot merge processes to format csv"},
		{processes(MergeOptions{Format: as(export.Chrome).Format}, Stdin, last), "read twice"},
		{parts(Stdin, last), "read twice"},
		{parts(old, last), "requires Go 1.22 or later"},
		{parts(first, last), "not from the same process"},
		{parts(filepath.Join(flight, "whole.trace"), last), "not from the same process"},
		{parts(filepath.Join(flight, "no.trace")), "no such file"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) || strings.Contains(test.err.Error(), "\n") {
			t.Errorf("%v, want %q", test.err, test.want)
		}
	}
}

// mergeParts merges files of a process.
func mergeParts(t *testing.T, paths ...string) (string, Converted) {
	t.Helper()
	var done Converted
	return made(t, func(out *Output) error {
		var err error
		done, err = MergeParts(t.Context(), out, paths, MergeOptions{Format: as(export.Go).Format})
		return err
	}), done
}

// withoutFirst returns a copy of a trace without its first generation: a flight recorder that keeps less time writes that.
func withoutFirst(t *testing.T, path string) string {
	t.Helper()
	rec, err := lookThrough(t.Context(), path)
	if err != nil || len(rec.generations) < 2 {
		t.Fatalf("%s: %v, %v", path, rec.generations, err)
	}
	later := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(path), ".trace")+"-later.trace")
	f, err := os.Create(later)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dropUntil(f, open(t, path), rec.first().number), f.Close()); err != nil {
		t.Fatal(err)
	}
	return later
}

// TestMergeFlight merges the overlapping files of a flight recorder, and compares with the trace of the whole time.
func TestMergeFlight(t *testing.T) {
	dir := recordFlight(t)
	var parts []string
	for _, name := range []string{"part2.trace", "part0.trace", "part1.trace"} {
		parts = append(parts, filepath.Join(dir, name))
	}
	parts[0] = withoutFirst(t, parts[0])
	merged, done := mergeParts(t, parts...)
	if report, err := Validate(t.Context(), open(t, merged), trace.ValidateOptions{}); err != nil || !report.Valid() {
		t.Errorf("%v, %v", report, err)
	}
	if notes := strings.Join(done.Notes, "\n"); !strings.Contains(notes, "generations of") || !strings.Contains(notes, "part 3, part2-later.trace, begins") ||
		strings.Contains(notes, "transitions") {
		t.Errorf("notes: %s", notes)
	}
	whole, _ := eventsOf(t, filepath.Join(dir, "whole.trace"))
	got, _ := eventsOf(t, merged)
	// The flight recorder has begun earlier. Times of the recordings differ a little, for each has looked at the clock by
	// itself, so what is compared lies between the creations of two goroutines.
	life := func(e event.Event) bool { return !event.KindsGoroutine.Has(e.Kind) || e.Kind == event.GoStatus }
	whole, got = slices.DeleteFunc(whole, life), slices.DeleteFunc(got, life)
	var created []uint64
	for _, e := range whole {
		if e.Kind == event.GoCreate {
			created = append(created, e.G)
		}
	}
	between := func(list []event.Event) []event.Event {
		at := func(g uint64) int {
			return slices.IndexFunc(list, func(e event.Event) bool { return e.Kind == event.GoCreate && e.G == g })
		}
		return list[at(created[5]):at(created[len(created)-5])]
	}
	whole, got = between(whole), between(got)
	if len(got) != len(whole) || len(got) < 5000 {
		t.Fatalf("%d events, want %d", len(got), len(whole))
	}
	for i := range got {
		off := got[i].Time - whole[i].Time
		if got[i].Kind != whole[i].Kind || got[i].G != whole[i].G || got[i].By != whole[i].By || max(off, -off) > int64(10*time.Millisecond) {
			t.Fatalf("event %d: %v of %d by %d at %d, want %v of %d by %d at %d", i, got[i].Kind, got[i].G, got[i].By, got[i].Time,
				whole[i].Kind, whole[i].G, whole[i].By, whole[i].Time)
		}
	}
	if _, done := mergeParts(t, parts[0], parts[0]); !strings.Contains(done.Notes[0], "nothing that the other files do not contain") {
		t.Errorf("the same twice: %q", done.Notes)
	}
}

// TestMergePause merges traces with a pause between them, in which goroutines have ended.
func TestMergePause(t *testing.T) {
	dir := recordFlight(t)
	first, second := filepath.Join(dir, "later0.trace"), filepath.Join(dir, "later1.trace")
	merged, done := mergeParts(t, second, first)
	if report, err := Validate(t.Context(), open(t, merged), trace.ValidateOptions{}); err != nil || !report.Valid() {
		t.Errorf("%v, %v", report, err)
	}
	notes := strings.Join(done.Notes, "\n")
	if !strings.Contains(notes, "part 2, later1.trace, begins ") || !strings.Contains(notes, "goroutines ended before part 2 began") {
		t.Errorf("notes: %s", notes)
	}
	events, _ := eventsOf(t, merged)
	marks := slices.DeleteFunc(slices.Clone(events), func(e event.Event) bool { return e.Kind != event.UserLog || e.Reason != "loupe" })
	if len(marks) != 1 || !strings.HasPrefix(marks[0].Text, "part 2, later1.trace, begins ") {
		t.Errorf("marks: %+v", marks)
	}
	later, _ := eventsOf(t, second)
	alive := func(list []event.Event) int {
		n := 0
		for _, e := range list {
			switch e.Kind {
			case event.GoCreate, event.GoStatus:
				n++
			case event.GoDestroy:
				n--
			}
		}
		return n
	}
	if alive(events) != alive(later) {
		t.Errorf("%d goroutines at the end, want %d", alive(events), alive(later))
	}
}

// TestMergePartial merges traces of which one is cut.
func TestMergePartial(t *testing.T) {
	dir := recordFlight(t)
	data := contentOf(t, filepath.Join(dir, "later0.trace"))
	cut := made(t, func(out *Output) error {
		_, err := out.Write(data[:len(data)*2/3])
		return err
	})
	second := filepath.Join(dir, "later1.trace")
	for _, merge := range []func(*Output, bool) (Converted, error){
		func(out *Output, partial bool) (Converted, error) {
			return MergeParts(t.Context(), out, []string{cut, second}, MergeOptions{Format: as(export.Go).Format, Partial: partial})
		},
		func(out *Output, partial bool) (Converted, error) {
			return MergeProcesses(t.Context(), out, []string{cut, second}, MergeOptions{Format: as(export.Chrome).Format, Partial: partial, Names: []string{"a", "b"}})
		},
	} {
		out, err := output.Create(t.Context(), Stdout, output.Options{Stdout: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := merge(out, false); !IsDamage(err) {
			t.Errorf("%v", err)
		}
		if done, err := merge(out, true); err != nil || !strings.Contains(strings.Join(done.Notes, "\n"), "the part before the damage is included") || done.Written < 100 {
			t.Errorf("%+v, %v", done, err)
		}
	}
}

// TestJoinRefuses gives joins what is none of their documents.
func TestJoinRefuses(t *testing.T) {
	var out bytes.Buffer
	p := &perfettoJoin{w: &out}
	p.part()
	for _, bad := range []string{"\x12\x00", "\x0a\x02\x53\x00", "\x0a\x04\x5a\x02\x5a\x05"} {
		w := p.part()
		_, err := w.Write([]byte(bad))
		if closeErr := w.Close(); err == nil {
			err = closeErr
		}
		if !errors.Is(err, errNoPerfetto) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	c := &chromeJoin{w: &out}
	w := c.part()
	io.WriteString(w, "no line")
	if w.Close() == nil {
		t.Error("a Chrome document without lines is accepted")
	}
}
