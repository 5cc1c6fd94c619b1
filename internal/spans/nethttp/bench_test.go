package nethttp

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/spans"
)

// payload is what the C half adds to a note.
type payload []byte

func (p *payload) words(list ...uint64) {
	for _, w := range list {
		*p = binary.LittleEndian.AppendUint64(*p, w)
	}
}

func (p *payload) texts(list ...string) {
	for _, text := range list {
		*p = binary.LittleEndian.AppendUint32(*p, uint32(len(text)))
		*p = binary.LittleEndian.AppendUint32(*p, 0)
		p.words(uint64(len(text)))
		*p = append(*p, text...)
		for len(*p)%8 != 0 {
			*p = append(*p, 0)
		}
	}
}

// BenchmarkServed is what the observer does for a request that a program serves: the notes of its begin and its end. reused is as in the
// table of loupe spans, kept as in an export.
func BenchmarkServed(b *testing.B) {
	const connections = 100
	for _, reused := range []bool{true, false} {
		b.Run(map[bool]string{true: "reused", false: "kept"}[reused], func(b *testing.B) {
			var begins, ends [connections]payload
			for c := range uint64(connections) {
				begin, end := &begins[c], &ends[c]
				begin.words(0, 0, 0, 0) // the probes have not chosen a context
				req, ctx, response := 0xc000100000+c<<8, 0xc000200000+c<<8, 0xc000300000+c<<8
				begin.words(req, ctx, response, 1|1<<8, 0)
				begin.texts("", "GET", "/hello", "127.0.0.1:8080", fmt.Sprint("127.0.0.1:", 30000+c), "")
				begin.words(0)
				begin.texts("")
				end.words(req, response, 0, 5, 0)
				end.texts("GET /hello")
			}
			ended := 0
			tracker := join.NewTracker(join.Options{Handle: func(s *spans.Span) { ended++ }, Reuse: reused})
			d := newDecoder(tracker, nil)
			now := int64(1)
			b.ReportAllocs()
			for i := range b.N {
				c, earlier := i%connections, (i+connections-7)%connections
				now += 1000
				d.decode(probe.NewNote(serverBegin, uint64(100+c), now, begins[c]))
				if i >= connections {
					d.decode(probe.NewNote(serverEnd, uint64(100+earlier), now, ends[earlier]))
				}
			}
			if ended < b.N-connections {
				b.Fatalf("%d of %d requests have ended: %+v", ended, b.N, tracker.Counts())
			}
		})
	}
}
