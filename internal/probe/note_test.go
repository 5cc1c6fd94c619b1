package probe

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// noteBytes returns a record of the first set with a payload.
func noteBytes(payload []byte) []byte {
	r := csrc.Record{Kind: csrc.KindSet, Time: 5, G: 7, Tid: 3, Reason: 9, Flags: uint8(MarkCut), Words: uint16(recordSize+len(payload)) / 8}
	return append(bytesOf(r), payload...)
}

func textBytes(size, marks uint32, length uint64, text string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, size)
	b = binary.LittleEndian.AppendUint32(b, marks)
	b = binary.LittleEndian.AppendUint64(b, length)
	b = append(b, text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// TestNote decodes the payload of a note, and payloads that are none.
func TestNote(t *testing.T) {
	word := []byte{1, 2, 0, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name    string
		payload []byte
		text    Text
		garbled uint64
	}{
		{"whole", append(word, textBytes(3, uint32(MarkCut), 1000, "abc")...), Text{Bytes: []byte("abc"), Length: 1000, Marks: MarkCut}, 0},
		{"empty text", append(word, textBytes(0, 0, 0, "")...), Text{Bytes: []byte{}}, 0},
		{"nothing", nil, Text{}, 1},
		{"half a text", append(word, textBytes(3, 0, 3, "abc")[:8]...), Text{}, 1},
		{"longer than the note", append(word, textBytes(9, 0, 9, "abc")...), Text{}, 1},
		{"of 4 GB", append(word, textBytes(1<<32-1, 0, 9, "abc")...), Text{}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := testDecoder()
			var got Text
			d.sets, d.noted = []*Set{{Decode: func(n *Note) {
				if n.Time != 1005 || n.G != 7 || n.TID != 3 || n.What != 9 || n.Marks != MarkCut {
					t.Errorf("%+v", n)
				}
				n.Word()
				got = n.Text()
				if n.More() {
					t.Error("more than a word and a text")
				}
			}}}, make([]SetCounts, 1)
			decodeAll(d, noteBytes(c.payload))
			if want := (SetCounts{Cut: 1, Garbled: c.garbled}); !reflect.DeepEqual(got, c.text) || d.noted[0] != want {
				t.Errorf("%+v, %+v; want %+v, %+v", got, d.noted[0], c.text, want)
			}
		})
	}
	d := testDecoder()
	d.sets, d.noted = []*Set{{}}, make([]SetCounts, 1)
	short := noteBytes(word)
	decodeAll(d, short[:recordSize], noteBytes(nil)) // less than the record says; and nobody decodes it
	if want := (SetCounts{Garbled: 2}); d.noted[0] != want {
		t.Errorf("%+v, want %+v", d.noted[0], want)
	}
}
