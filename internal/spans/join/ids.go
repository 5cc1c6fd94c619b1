package join

import (
	crand "crypto/rand"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// ids generates IDs of traces and spans.
type ids struct{ random *rand.ChaCha8 }

func newIDs() ids {
	var seed [32]byte
	crand.Read(seed[:]) // never fails
	return ids{rand.NewChaCha8(seed)}
}

func (i ids) word() uint64 {
	for {
		if w := i.random.Uint64(); w != 0 { // zero is invalid
			return w
		}
	}
}

func (i ids) span() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], i.word())
	return id
}

func (i ids) trace() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], i.word())
	binary.BigEndian.PutUint64(id[8:], i.word())
	return id
}
