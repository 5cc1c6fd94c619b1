package perfetto

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/export/exporttest"
)

// The tests read traces by the numbers of Perfetto's schema as they are written here, not by those of schema.go.

// field is one field of a message: number and content.
type field struct {
	num   uint64
	value uint64 // of varints and fixed64
	bytes []byte // of texts and messages; nil for numbers
}

// wires are the wire types of a message's fields by number: 'v' varint, 'f' fixed64, 's' UTF-8 text, 'm' message or bytes.
type wires map[uint64]byte

// parse reads the fields of a message. A field that is not among those expected is an error, as is a wrong wire type.
func parse(b []byte, name string, expect wires) ([]field, error) {
	var list []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fmt.Errorf("%s: bad key", name)
		}
		b = b[n:]
		f := field{num: key >> 3}
		want, wire := expect[f.num], key&7
		switch {
		case want == 'v' && wire == 0:
			f.value, n = binary.Uvarint(b)
		case want == 'f' && wire == 1:
			if n = 8; len(b) < 8 {
				return nil, fmt.Errorf("%s: field %d is cut off", name, f.num)
			}
			f.value = binary.LittleEndian.Uint64(b)
		case (want == 's' || want == 'm') && wire == 2:
			size, m := binary.Uvarint(b)
			if m <= 0 || size > uint64(len(b)-m) {
				return nil, fmt.Errorf("%s: field %d is cut off", name, f.num)
			}
			f.bytes, n = b[m:m+int(size)], m+int(size)
			if want == 's' && !utf8.Valid(f.bytes) {
				return nil, fmt.Errorf("%s: field %d is not UTF-8: %q", name, f.num, f.bytes)
			}
		default:
			return nil, fmt.Errorf("%s: field %d with wire type %d is not expected", name, f.num, wire)
		}
		if n <= 0 {
			return nil, fmt.Errorf("%s: field %d: bad number", name, f.num)
		}
		b = b[n:]
		list = append(list, f)
	}
	return list, nil
}

// one is a field that occurs once or not at all.
func one(list []field, num uint64) (f field, ok bool, err error) {
	for _, x := range list {
		if x.num == num {
			if ok {
				return f, ok, fmt.Errorf("field %d occurs twice", num)
			}
			f, ok = x, true
		}
	}
	return f, ok, nil
}

// numbers are the fields of a message that have numbers, each once.
func numbers(list []field, nums ...uint64) (values []uint64, err error) {
	for _, num := range nums {
		f, _, err := one(list, num)
		if err != nil {
			return nil, err
		}
		values = append(values, f.value)
	}
	return values, nil
}

// decoder makes a drawing of a trace.
type decoder struct {
	exporttest.Drawing
	base     uint64
	began    bool                         // the events' sequence has state
	interned map[uint64]map[uint64]string // InternedData, by field and number: since the state was cleared
	used     map[uint64]map[uint64]bool   // numbers of the whole trace
	tracks   map[uint64]*decodedTrack
	clears   int
	packets  int
}

type decodedTrack struct {
	name, what string // what is the text of an exporttest.Item
	parent     uint64
	counter    bool
	task       bool // of one, whose ID is known
}

func decode(trace []byte) (*decoder, error) {
	d := &decoder{tracks: map[uint64]*decodedTrack{}, used: map[uint64]map[uint64]bool{}}
	packets, err := parse(trace, "Trace", wires{1: 'm'})
	if err != nil {
		return nil, err
	}
	for _, p := range packets {
		if err := d.packet(p.bytes); err != nil {
			return d, fmt.Errorf("packet %d: %w", d.packets, err)
		}
		d.packets++
	}
	return d, nil
}

func (d *decoder) packet(b []byte) error {
	p, err := parse(b, "TracePacket", wires{6: 'm', 8: 'v', 10: 'v', 11: 'm', 12: 'm', 13: 'v', 59: 'm', 60: 'm', 87: 'v'})
	if err != nil {
		return err
	}
	n, err := numbers(p, 8, 10, 13, 87)
	if err != nil {
		return err
	}
	at, sequence, flags, first := n[0], n[1], n[2], n[3]
	if track, ok, _ := one(p, 60); ok {
		if sequence != 2 || len(p) != 2 {
			return fmt.Errorf("a descriptor on sequence %d with %d fields", sequence, len(p))
		}
		return d.track(track.bytes)
	}
	if sequence != 1 {
		return fmt.Errorf("sequence %d", sequence)
	}
	if flags == 1 { // SEQ_INCREMENTAL_STATE_CLEARED
		if (first == 1) != !d.began {
			return fmt.Errorf("first packet %d, but began %v", first, d.began)
		}
		d.began, d.interned = true, map[uint64]map[uint64]string{}
		d.clears++
		if err := d.state(p, first == 1); err != nil {
			return err
		}
	} else if flags != 2 || !d.began { // SEQ_NEEDS_INCREMENTAL_STATE
		return fmt.Errorf("sequence flags %d", flags)
	}
	if data, ok, _ := one(p, 12); ok {
		if err := d.intern(data.bytes); err != nil {
			return err
		}
	}
	if event, ok, err := one(p, 11); err != nil {
		return err
	} else if ok {
		return d.event(at, event.bytes)
	}
	return nil
}

// state reads what a packet says that clears the state.
func (d *decoder) state(p []field, first bool) error {
	defaults, _, err := one(p, 59)
	if err != nil {
		return err
	}
	list, err := parse(defaults.bytes, "TracePacketDefaults", wires{58: 'v'})
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].value != 11 { // BUILTIN_CLOCK_TRACE_FILE
		return fmt.Errorf("the clock of packets is %v", list)
	}
	snapshot, ok, _ := one(p, 6)
	if ok != first {
		return fmt.Errorf("a clock snapshot: %v; the first packet: %v", ok, first)
	}
	if !ok {
		return nil
	}
	clocks, err := parse(snapshot.bytes, "ClockSnapshot", wires{1: 'm', 2: 'v'})
	if err != nil {
		return err
	}
	times := map[uint64]uint64{}
	for _, c := range clocks {
		if c.num == 2 {
			if c.value != 11 {
				return fmt.Errorf("the primary trace clock is %d", c.value)
			}
			continue
		}
		clock, err := parse(c.bytes, "Clock", wires{1: 'v', 2: 'v'})
		if err != nil {
			return err
		}
		n, err := numbers(clock, 1, 2)
		if err != nil {
			return err
		}
		times[n[0]] = n[1]
	}
	if at, ok := times[11]; len(times) != 2 || !ok || at != 0 {
		return fmt.Errorf("clocks %v", times)
	}
	d.base = times[1] // BUILTIN_CLOCK_REALTIME
	return nil
}

// track reads a TrackDescriptor.
func (d *decoder) track(b []byte) error {
	list, err := parse(b, "TrackDescriptor", wires{1: 'v', 2: 's', 3: 'm', 4: 'm', 5: 'v', 8: 'm', 11: 'v', 12: 'v', 15: 'v'})
	if err != nil {
		return err
	}
	n, err := numbers(list, 1, 5, 12)
	if err != nil {
		return err
	}
	t := &decodedTrack{parent: n[1]}
	name, _, _ := one(list, 2)
	t.name, t.what = string(name.bytes), string(name.bytes)
	parent := d.tracks[t.parent]
	if t.parent != 0 && parent == nil {
		return fmt.Errorf("track %q is below track %d, which is not known", t.name, t.parent)
	}
	switch {
	case parent != nil && parent.name == "goroutines":
		t.what = fmt.Sprintf("g %d", n[2])
		if old := d.tracks[n[0]]; t.name != t.what && !strings.HasPrefix(t.name, t.what+" ") || old != nil && old.what != t.what {
			return fmt.Errorf("track %d is called %q and has rank %d", n[0], t.name, n[2])
		}
		d.Items = append(d.Items, exporttest.Item{What: 'T', Track: t.what, Name: t.name})
	case t.name == "regions":
		t.what = parent.what + " regions"
	}
	if p, ok, _ := one(list, 3); ok {
		t.what = "process"
		if _, err := parse(p.bytes, "ProcessDescriptor", wires{1: 'v', 6: 's'}); err != nil {
			return err
		}
	}
	if p, ok, _ := one(list, 4); ok {
		thread, err := parse(p.bytes, "ThreadDescriptor", wires{1: 'v', 2: 'v'})
		if err != nil {
			return err
		}
		n, err := numbers(thread, 1, 2)
		if err != nil {
			return err
		}
		t.what = fmt.Sprintf("thread %d", n[1])
	}
	if c, ok, _ := one(list, 8); ok {
		t.counter = true
		unit, err := parse(c.bytes, "CounterDescriptor", wires{3: 'v'})
		if err != nil || len(unit) != 1 || unit[0].value == 3 != slices.Contains([]string{"heap", "heap goal", "allocated bytes"}, t.name) {
			return fmt.Errorf("counter %q: %v %v", t.name, unit, err)
		}
	}
	d.tracks[n[0]] = t
	return nil
}

// intern reads InternedData.
func (d *decoder) intern(b []byte) error {
	list, err := parse(b, "InternedData", wires{1: 'm', 2: 'm', 3: 'm', 5: 'm', 6: 'm', 7: 'm', 18: 'm', 29: 'm'})
	if err != nil {
		return err
	}
	for _, f := range list {
		var id uint64
		var text string
		switch f.num {
		case 6:
			id, text, err = d.frame(f.bytes)
		case 7:
			id, text, err = d.callstack(f.bytes)
		default:
			entry, perr := parse(f.bytes, "interned text", wires{1: 'v', 2: 's'})
			if perr != nil || len(entry) != 2 {
				return fmt.Errorf("interned data %d: %v %v", f.num, entry, perr)
			}
			id, text = entry[0].value, string(entry[1].bytes)
		}
		if err != nil {
			return err
		}
		if d.interned[f.num] == nil {
			d.interned[f.num] = map[uint64]string{}
		}
		if d.used[f.num] == nil {
			d.used[f.num] = map[uint64]bool{}
		}
		if fixed := f.num == 1 || f.num == 3; id == 0 || d.used[f.num][id] && !fixed {
			return fmt.Errorf("interned data %d: number %d is used twice", f.num, id)
		}
		d.used[f.num][id] = true
		d.interned[f.num][id] = text
	}
	return nil
}

// text looks up interned data.
func (d *decoder) text(num, id uint64) (string, error) {
	s, ok := d.interned[num][id]
	if !ok {
		return "", fmt.Errorf("interned data %d: number %d is not known", num, id)
	}
	return s, nil
}

func (d *decoder) frame(b []byte) (uint64, string, error) {
	list, err := parse(b, "Frame", wires{1: 'v', 2: 'v', 5: 'v', 6: 'v'})
	if err != nil {
		return 0, "", err
	}
	n, err := numbers(list, 1, 2, 5, 6)
	if err != nil {
		return 0, "", err
	}
	function, err := d.text(5, n[1])
	if err != nil {
		return 0, "", err
	}
	if n[2] == 0 {
		return n[0], function, nil
	}
	file, err := d.text(18, n[2])
	return n[0], fmt.Sprintf("%s %s:%d", function, file, n[3]), err
}

func (d *decoder) callstack(b []byte) (uint64, string, error) {
	list, err := parse(b, "Callstack", wires{1: 'v', 2: 'v'})
	if err != nil {
		return 0, "", err
	}
	var id uint64
	var frames []string
	for _, f := range list {
		if f.num == 1 {
			id = f.value
			continue
		}
		text, err := d.text(6, f.value)
		if err != nil {
			return 0, "", err
		}
		frames = append(frames, text)
	}
	if len(frames) == 0 {
		return 0, "", fmt.Errorf("callstack %d is empty", id)
	}
	slices.Reverse(frames)
	return id, strings.Join(frames, " < "), nil
}

// event reads a TrackEvent.
func (d *decoder) event(at uint64, b []byte) error {
	list, err := parse(b, "TrackEvent", wires{3: 'v', 4: 'm', 9: 'v', 10: 'v', 11: 'v', 23: 's', 30: 'v', 47: 'f', 48: 'f', 56: 'v'})
	if err != nil {
		return err
	}
	n, err := numbers(list, 9, 11, 30, 3, 10, 56)
	if err != nil {
		return err
	}
	track := d.tracks[n[1]]
	if track == nil {
		return fmt.Errorf("track %d is not known", n[1])
	}
	what := map[uint64]byte{1: 'B', 2: 'E', 3: 'I', 4: 'C'}[n[0]]
	if what == 0 || track.counter != (what == 'C') {
		return fmt.Errorf("type %d on track %q", n[0], track.name)
	}
	i := exporttest.Item{What: what, At: int64(at), Track: track.what, Value: int64(n[2])}
	if what == 'B' || what == 'I' {
		if i.Category, err = d.text(1, n[3]); err != nil {
			return err
		}
		if name, ok, _ := one(list, 23); ok {
			i.Name = string(name.bytes)
		} else if i.Name, err = d.text(2, n[4]); err != nil {
			return err
		}
	}
	if n[5] != 0 {
		if i.Stack, err = d.text(7, n[5]); err != nil {
			return err
		}
	}
	return d.rest(list, &i, track)
}

// rest reads the fields of a TrackEvent that may occur more than once.
func (d *decoder) rest(list []field, i *exporttest.Item, track *decodedTrack) error {
	for _, f := range list {
		switch f.num {
		case 47:
			i.Flow = fmt.Sprintf("> %d", f.value)
		case 48:
			i.Flow = fmt.Sprintf("< %d", f.value)
		case 4:
			arg, err := d.annotation(f.bytes)
			if err != nil {
				return err
			}
			i.Args = append(i.Args, arg)
		}
	}
	if i.Category == "task" && !track.task { // its track has no ID
		track.task = true
		id := int64(0)
		for _, a := range i.Args {
			fmt.Sscanf(a, "task=%d", &id)
		}
		track.what = fmt.Sprintf("task %d", uint64(id))
		i.Track = track.what
	}
	d.Items = append(d.Items, *i)
	return nil
}

func (d *decoder) annotation(b []byte) (string, error) {
	list, err := parse(b, "DebugAnnotation", wires{1: 'v', 4: 'v', 7: 'v', 17: 'v'})
	if err != nil {
		return "", err
	}
	if len(list) != 2 || list[0].num != 1 {
		return "", fmt.Errorf("annotation with fields %v", list)
	}
	key, err := d.text(3, list[0].value)
	if err != nil {
		return "", err
	}
	value := list[1].value
	switch list[1].num {
	case 4:
		return fmt.Sprintf("%s=%d", key, int64(value)), nil
	case 7:
		return fmt.Sprintf("%s=0x%x", key, value), nil
	}
	text, err := d.text(29, value)
	return key + "=" + text, err
}
