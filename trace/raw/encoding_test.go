package raw

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// numbers returns numbers of all sizes.
func numbers() []uint64 {
	all := []uint64{0, math.MaxUint64}
	for bit := range 64 {
		x := uint64(1) << bit
		all = append(all, x-1, x, x+1)
	}
	for x := uint64(1); x < math.MaxUint64/10; x *= 10 {
		all = append(all, x-1, x, x+1, 10*x-1, 10*x)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		all = append(all, r.Uint64()>>r.IntN(64))
	}
	return all
}

func TestVarint(t *testing.T) {
	for _, x := range numbers() {
		want := binary.AppendUvarint(nil, x)
		var b [maxVarint]byte
		if n := putVarint(&b, x); !bytes.Equal(b[:n], want) || n != varintSize(x) {
			t.Fatalf("%d is % x of size %d, want % x", x, b[:n], varintSize(x), want)
		}
		for width := range uint8(maxVarint + 1) {
			b := [maxVarint]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
			n := putVarintWidth(&b, x, width)
			if n != max(int(width), len(want)) {
				t.Fatalf("%d in width %d has %d bytes", x, width, n)
			}
			if got, size := decodeVarint(&b); got != x || size != n {
				t.Fatalf("%d in width %d is % x, read as %d of %d bytes", x, width, b[:n], got, size)
			}
			if got, size := binary.Uvarint(b[:n]); got != x || size != n {
				t.Fatalf("%d in width %d is % x, which encoding/binary reads as %d of %d bytes", x, width, b[:n], got, size)
			}
		}
	}
}

func TestDecimal(t *testing.T) {
	for _, x := range numbers() {
		want := strconv.FormatUint(x, 10)
		var b [decimalRoom]byte
		if n := putDecimal(b[:], x); string(b[:n]) != want {
			t.Fatalf("%s is written %s", want, b[:n])
		}
		if got, ok := parseDecimal([]byte(want)); !ok || got != x {
			t.Fatalf("%s is read %d", want, got)
		}
		in := append([]byte(want), " 12345678901234567890"...)
		if got, size := quickDecimal(in); size == len(want) && got != x || size != len(want) && len(want) < maxDecimal {
			t.Fatalf("%s is read %d of %d digits", want, got, size)
		}
	}
	for _, bad := range []string{"", "x", "1x", "-1", "+1", " 1", "18446744073709551616", "100000000000000000000"} {
		if x, ok := parseDecimal([]byte(bad)); ok {
			t.Errorf("%q is read %d", bad, x)
		}
	}
}

// texts are strings with everything that quoting has to deal with.
func texts() [][]byte {
	var all [][]byte
	var every []byte
	for c := range 256 {
		every = append(every, byte(c))
		all = append(all, []byte{byte(c)}, []byte{'a', byte(c), 'b'})
	}
	all = append(all, nil, every, []byte("żółć 世界 \u2028\u00ad\ufeff\ufffd\U0001F600\U000e0001\U0010ffff"), []byte("\xed\xa0\x80\xf5\xc0\xe2\x82"))
	return append(all, bytes.Repeat(every, 2000))
}

func TestQuote(t *testing.T) {
	for _, data := range texts() {
		var quotedData bytes.Buffer
		out := outputBuffer{w: &quotedData, buf: make([]byte, 2*maxQuoted)}
		if !out.addQuoted(data) || !out.flush(out.size) {
			t.Fatal(out.err)
		}
		if want := strconv.Quote(string(data)); quotedData.String() != want {
			t.Fatalf("%.100q is quoted %.200s, want %.200s", data, quotedData.String(), want)
		}
		got, err := unquote(nil, quotedData.Bytes())
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%.200s is read as %.100q, %v", quotedData.String(), got, err)
		}
	}
}

// TestNames finds all names of all versions, and no others.
func TestNames(t *testing.T) {
	for v := range Version(255) {
		if !v.Valid() {
			if v.Specs() != nil {
				t.Errorf("%s has specifications", v)
			}
			continue
		}
		f := v.format()
		seen := make(map[string]bool)
		for typ, spec := range v.Specs() {
			if spec.Name == "" {
				continue
			}
			if seen[spec.Name] {
				t.Errorf("%s has %s twice", v, spec.Name)
			}
			seen[spec.Name] = true
			if c := f.byName([]byte(spec.Name)); c == nil || int(c.typ) != typ {
				t.Errorf("%s: %s is not found", v, spec.Name)
			}
			for _, other := range []string{spec.Name + "x", spec.Name[:len(spec.Name)-1] + "\x00", spec.Name + "\x00", "x" + spec.Name[1:]} {
				if c := f.byName([]byte(other)); c != nil {
					t.Errorf("%s: %q is taken for %s", v, other, c.spec.Name)
				}
			}
		}
	}
}

// sample returns an event of each type of a version, with widths in some of them.
func sample(v Version) []Event {
	var events []Event
	r := rand.New(rand.NewPCG(3, uint64(v)))
	for typ, spec := range v.Specs() {
		if spec.Name == "" {
			continue
		}
		for _, wide := range []bool{false, true} {
			ev := Event{Version: v, Type: Type(typ)}
			for range spec.Args {
				ev.Args = append(ev.Args, r.Uint64()>>r.IntN(64))
			}
			if spec.IsStack {
				ev.Args[1] = 3
				for range ev.Args[1] {
					ev.Frames = append(ev.Frames, Frame{r.Uint64(), r.Uint64() >> 50, r.Uint64() >> 51, r.Uint64() >> 55})
				}
			}
			if spec.HasData {
				ev.Data = []byte("some \x00 data")
			}
			if wide {
				ev.Widths = []uint8{10, 0, 10}
			}
			events = append(events, ev)
		}
	}
	return events
}

// TestEveryEvent takes an event of each type through both formats.
func TestEveryEvent(t *testing.T) {
	for v := range Version(255) {
		if !v.Valid() {
			continue
		}
		var wire, text bytes.Buffer
		w, _ := NewWriter(&wire, v)
		tw, _ := NewTextWriter(&text, v)
		want := ""
		for _, ev := range sample(v) {
			if err := w.WriteEvent(&ev); err != nil {
				t.Fatal(err)
			}
			if err := tw.WriteEvent(&ev); err != nil {
				t.Fatal(err)
			}
			want += ev.String() + "\n"
		}
		w.Close()
		tw.Close()
		if got, err := readWire(&wire, true); err != nil || got != want {
			t.Errorf("%s: wire: got %v\n%swant\n%s", v, err, got, want)
		}
		if got, err := readText(&text, true); err != nil || got != want {
			t.Errorf("%s: text: got %v\n%swant\n%s", v, err, got, want)
		}
	}
}

// TestAllocations makes sure that events cost no allocation.
func TestAllocations(t *testing.T) {
	for _, v := range []Version{Go121, Go126} {
		var wire, text bytes.Buffer
		w, _ := NewWriter(&wire, v)
		tw, _ := NewTextWriter(&text, v)
		const rounds = 200
		events := sample(v)
		for range rounds {
			for i := range events {
				if w.WriteEvent(&events[i]) != nil || tw.WriteEvent(&events[i]) != nil {
					t.Fatal("an event is refused")
				}
			}
		}
		w.Close()
		tw.Close()

		r, _ := NewReader(bytes.NewReader(wire.Bytes()))
		tr, _ := NewTextReader(bytes.NewReader(text.Bytes()))
		r.KeepWidths, tr.KeepWidths = true, true
		w, _ = NewWriter(io.Discard, v)
		w.RecomputeSizes = true
		tw, _ = NewTextWriter(io.Discard, v)
		for name, step := range map[string]func(ev *Event) error{
			"Reader": r.ReadEvent, "TextReader": tr.ReadEvent, "Writer": w.WriteEvent, "TextWriter": tw.WriteEvent,
		} {
			ev := events[len(events)-1]
			failed := error(nil)
			step(&ev)
			for range events { // so that slices and buffers have their sizes
				step(&ev)
			}
			allocs := testing.AllocsPerRun(len(events)*(rounds-3), func() {
				if err := step(&ev); err != nil {
					failed = err
				}
			})
			if allocs != 0 || failed != nil {
				t.Errorf("%s: %s: %v allocations for each event, error %v", v, name, allocs, failed)
			}
		}
	}
}
