package redis

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteCommand = iota
	noteBatch
	noteRelease
	noteFailed
	noteBatchFailed
	noteSlept
)

// Kinds of batches, as in probes.c.
const (
	batchOfClient = iota
	batchOfNode
	transactionOfNode
)

// An operation is one that has begun. It is kept after its end, until its goroutine does something outside of it: what the client does
// on the way back must not be taken for a part of the operation around it.
type operation struct {
	span       *spans.Span // nil for the operations with which a connection begins
	passed     []uint64    // addresses of its context.Context: see join.Tracker.Pass
	client     uint64      // the address of the client
	depth      uint64      // of the stack where it began
	batch      uint64      // the address of the commands of a batch; 0 for a command
	node       bool        // a batch that a cluster client sends to a node
	known      int         // number of attributes from its begin
	attributes int         // the same with those of the peer, but without those of an error
	attempts   uint64      // that have failed and were followed by a pause
	retries    uint64      // maximum number of other attempts
	over       int64       // when it has probably ended; 0: it has not
}

// lasts reports whether the operation has not ended.
func (op *operation) lasts() bool { return op != nil && op.span != nil && op.span.End == 0 }

// A goroutine is the operations of a goroutine, innermost last.
type goroutine []*operation

// top returns the innermost operation, or nil.
func (g goroutine) top() *operation {
	if len(g) == 0 {
		return nil
	}
	return g[len(g)-1]
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	library    string
	tracker    *join.Tracker
	typeName   func(uint64) (string, error)
	opt        Options
	goroutines map[uint64]goroutine
	limit      int // number of goroutines at which those without operations are removed
}

// minLimit is the least limit.
const minLimit = 1 << 12

func newDecoder(library string, t *join.Tracker, typeName func(uint64) (string, error), o Options) *decoder {
	return &decoder{library: library, tracker: t, typeName: typeName, opt: o, goroutines: map[uint64]goroutine{}, limit: minLimit}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteCommand:
		d.command(n)
	case noteBatch:
		d.batch(n)
	case noteRelease:
		client := n.Word()
		f := d.failure(n)
		d.release(n, client, f, d.peer(n))
	case noteFailed:
		depth := n.Word()
		d.failed(n, depth, d.failure(n))
	case noteBatchFailed:
		batch := n.Word()
		d.batchFailed(n, batch, d.failure(n))
	case noteSlept:
		depth := n.Word()
		d.slept(n, depth, d.failure(n))
	}
}

// inside returns the operations of a goroutine that contain a function whose frame is at a depth of the stack. Those that have begun at the
// same depth or deeper are over.
func (d *decoder) inside(n *probe.Note, depth uint64) goroutine {
	g := d.goroutines[n.G]
	for top := g.top(); top != nil && top.depth >= depth; top = g.top() {
		g = d.leave(n, g)
	}
	return g
}

// leave removes the innermost operation of a goroutine. If its end was not observed, its span ends.
func (d *decoder) leave(n *probe.Note, g goroutine) goroutine {
	op := g.top()
	g = g[:len(g)-1]
	d.goroutines[n.G] = g
	switch {
	case !op.lasts():
	case op.over != 0:
		d.tracker.End(op.span, op.over)
	default:
		d.tracker.Supersede(op.span, n.Time)
	}
	return g
}

// enter adds an operation that begins. If it has the client of another one of the goroutine, that is over.
func (d *decoder) enter(n *probe.Note, op *operation) {
	g := d.inside(n, op.depth)
	for slices.ContainsFunc(g, func(o *operation) bool { return o.client == op.client }) {
		g = d.leave(n, g)
	}
	if !slices.ContainsFunc(g, (*operation).lasts) {
		g = g[:0]
	}
	if g == nil && len(d.goroutines) >= d.limit {
		maps.DeleteFunc(d.goroutines, func(_ uint64, g goroutine) bool { return !slices.ContainsFunc(g, (*operation).lasts) })
		d.limit = max(minLimit, 2*len(d.goroutines))
	}
	d.goroutines[n.G] = append(g, op)
}

// client reads what is known of the client of an operation that begins. The operation has no span if that is not reported.
func (d *decoder) client(n *probe.Note) *operation {
	client, depth, pool := n.Word(), n.Word(), n.Word()
	db, retries := int64(n.Word()), n.Word()
	addr, passed := n.Text(), sets.Contexts(n)
	op := &operation{passed: passed, client: client, depth: depth, retries: min(retries, 1<<20)}
	name, err := d.typeName(pool)
	switch {
	case pool == 0 || err != nil: // eBPF could not read the type
		if outer := d.inside(n, depth).top(); outer.lasts() && outer.client != client {
			return op
		}
	case name == "*pool.SingleConnPool": // a connection begins
		return op
	case !strings.HasPrefix(name, "*pool.") || client == 0 || db < 0 || db >= 1<<32:
		d.tracker.Mismatch()
		return op
	}
	op.span = &spans.Span{Library: d.library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Object: client}
	op.span.Set(semconv.DBSystemNameRedis, semconv.DBNamespace(strconv.FormatInt(db, 10)))
	setServer(op.span, string(addr.Bytes))
	return op
}

// begin begins an operation.
func (d *decoder) begin(n *probe.Note, op *operation) {
	d.enter(n, op)
	if op.span == nil {
		return
	}
	op.known = len(op.span.Attributes)
	op.attributes = op.known
	d.tracker.Begin(op.span, op.passed...)
	if op.node { // nothing reports that a node of v8 has no connection
		op.fail(failure{kind: semconv.ErrorTypeOther.Value.AsString()})
		d.tracker.Presume(op.span, 0)
	}
}

func (d *decoder) command(n *probe.Note) {
	op := d.client(n)
	count, sent := n.Word(), n.Word()
	args := make([]string, min(sent, maxArgs))
	for i := range args {
		args[i] = string(n.Text().Bytes)
	}
	s := op.span
	if s == nil {
		d.begin(n, op)
		return
	}
	s.Name = semconv.DBSystemNameRedis.Value.AsString()
	if len(args) > 0 && args[0] != "" {
		s.Name = args[0]
		s.Set(semconv.DBOperationName(args[0]))
		if !d.opt.NoText {
			s.Set(semconv.DBQueryText(queryText(args, count)))
		}
	}
	d.begin(n, op)
}

func (d *decoder) batch(n *probe.Note) {
	op := d.client(n)
	kind := n.Word()
	op.batch = n.Word()
	count, wrapped, same := n.Word(), n.Word(), n.Word()
	name := string(n.Text().Bytes)
	if op.span == nil {
		d.begin(n, op)
		return
	}
	if count >= 1<<32 || kind > transactionOfNode {
		d.tracker.Mismatch()
		return
	}
	op.node = kind != batchOfClient
	operation := "PIPELINE"
	if wrapped != 0 || kind == transactionOfNode {
		operation = "MULTI"
	}
	switch {
	case same == 0 || name == "":
	case count == 1 && operation == "PIPELINE": // not a batch
		operation = name
	default:
		operation += " " + name
	}
	s := op.span
	s.Name = operation
	s.Set(semconv.DBOperationName(operation))
	if count > 1 {
		s.Set(semconv.DBOperationBatchSize(int(count)))
	}
	d.begin(n, op)
}

// release takes the end of an attempt: the connection is released, with the error of the attempt.
func (d *decoder) release(n *probe.Note, client uint64, f failure, peer []attribute.KeyValue) {
	g := d.goroutines[n.G]
	if !slices.ContainsFunc(g, func(op *operation) bool { return op.client == client }) {
		return
	}
	for g.top().client != client { // they are over
		g = d.leave(n, g)
	}
	op := g.top()
	if !op.lasts() {
		return
	}
	op.clear()
	op.span.Attributes = append(op.span.Attributes[:op.known], peer...)
	op.attributes = len(op.span.Attributes)
	if f.none() {
		d.tracker.End(op.span, n.Time)
		return
	}
	d.fail(op, f, n.Time)
}

// failed takes the error of an attempt, which may be made again.
func (d *decoder) failed(n *probe.Note, depth uint64, f failure) {
	if op := d.inside(n, depth).top(); op.lasts() && !op.node && op.over == 0 { // else the release of its connection has reported the error
		d.fail(op, f, n.Time)
	}
}

// batchFailed takes the error with which a batch ends.
func (d *decoder) batchFailed(n *probe.Note, batch uint64, f failure) {
	g := d.goroutines[n.G]
	i := slices.IndexFunc(g, func(op *operation) bool { return op.batch == batch && op.lasts() })
	if i < 0 || batch == 0 {
		return
	}
	for len(g) > i+1 {
		g = d.leave(n, g)
	}
	d.end(g[i], f, n.Time)
}

// slept takes the end of a pause before another attempt. An error means that there is no other attempt.
func (d *decoder) slept(n *probe.Note, depth uint64, f failure) {
	op := d.inside(n, depth).top()
	if !op.lasts() || op.over == 0 {
		return
	}
	d.tracker.Continue(op.span)
	op.over = 0
	if !f.none() {
		d.end(op, f, n.Time)
		return
	}
	op.attempts++
}

// fail takes the error of an attempt. If there may be another attempt, the operation has probably ended.
func (d *decoder) fail(op *operation, f failure, at int64) {
	if f.missing() || f.final() || op.attempts >= op.retries {
		d.end(op, f, at)
		return
	}
	op.clear()
	op.fail(f)
	op.over = at
	d.tracker.Presume(op.span, at)
}

// end ends an operation with an error.
func (d *decoder) end(op *operation, f failure, at int64) {
	op.clear()
	if !f.missing() {
		op.fail(f)
	}
	d.tracker.End(op.span, at)
}

// clear removes what fail has set.
func (op *operation) clear() {
	op.span.Attributes = op.span.Attributes[:op.attributes]
	op.span.Status = codes.Unset
}

// fail sets the attributes of an error.
func (op *operation) fail(f failure) {
	if f.status != "" {
		op.span.Set(semconv.DBResponseStatusCode(f.status))
	}
	op.span.Set(semconv.ErrorTypeKey.String(f.kind))
	op.span.Fail("")
}
