package redis

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
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

// An operation is one that has begun.
type operation struct {
	span       *spans.Span
	client     uint64 // the address of the client
	depth      uint64 // of the stack where it began
	batch      uint64 // the address of the commands of a batch; 0 for a command
	node       bool   // a batch that a cluster client sends to a node
	attributes int    // number of attributes without those of an error
	attempts   uint64 // that have failed and were followed by a pause
	retries    uint64 // maximum number of other attempts
	over       int64  // when it has probably ended; 0: it has not
}

// A goroutine is one with operations.
type goroutine struct {
	open []*operation // innermost last

	// handled is an error that the release of a connection has reported. The client tests next whether to retry the operation.
	handled uint64
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	library    string
	tracker    *join.Tracker
	typeName   func(uint64) (string, error)
	opt        Options
	goroutines map[uint64]*goroutine
}

// maxKept bounds the goroutines that are kept. Some of them have ended.
const maxKept = 1 << 14

func newDecoder(library string, t *join.Tracker, typeName func(uint64) (string, error), o Options) *decoder {
	return &decoder{library: library, tracker: t, typeName: typeName, opt: o, goroutines: map[uint64]*goroutine{}}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteCommand:
		d.command(n)
	case noteBatch:
		d.batch(n)
	case noteRelease:
		client := n.Word()
		d.release(n, client, d.failure(n))
	case noteFailed:
		d.failed(n, d.failure(n))
	case noteBatchFailed:
		batch := n.Word()
		d.batchFailed(n, batch, d.failure(n))
	case noteSlept:
		d.slept(n, d.failure(n))
	}
}

// goroutine returns a goroutine with the operations that have not ended, or nil if it has none.
func (d *decoder) goroutine(id uint64) *goroutine {
	g := d.goroutines[id]
	if g == nil {
		return nil
	}
	g.open = slices.DeleteFunc(g.open, func(op *operation) bool { return op.span.End != 0 })
	if len(g.open) == 0 && g.handled == 0 {
		delete(d.goroutines, id)
		return nil
	}
	return g
}

// top returns the innermost operation, or nil.
func (g *goroutine) top() *operation {
	if g == nil || len(g.open) == 0 {
		return nil
	}
	return g.open[len(g.open)-1]
}

// client reads what is known of the client of an operation that begins.
func (d *decoder) client(n *probe.Note) (op *operation, begins bool) {
	client, depth, pool := n.Word(), n.Word(), n.Word()
	db, retries := int64(n.Word()), n.Word()
	addr := n.Text()
	g := d.goroutine(n.G)
	if g != nil {
		g.handled = 0
	}
	op = &operation{client: client, depth: depth, retries: min(retries, 1<<20)}
	op.span = &spans.Span{Library: d.library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Object: client}
	name, err := d.typeName(pool)
	switch {
	case pool == 0 || err != nil: // eBPF could not read the type
		begins = g.top() == nil || g.top().client == client
	case name == "*pool.SingleConnPool": // a connection that begins
	case !strings.HasPrefix(name, "*pool.") || client == 0 || db < 0 || db >= 1<<32:
		d.tracker.Mismatch()
	default:
		begins = true
	}
	op.span.Set(semconv.DBSystemNameRedis, semconv.DBNamespace(strconv.FormatInt(db, 10)))
	setServer(op.span, string(addr.Bytes))
	return op, begins
}

// setServer sets the attributes of an address: "host:port", or the path of a socket. Clients with sentinels have no address.
func setServer(s *spans.Span, addr string) {
	if strings.HasPrefix(addr, "/") || strings.HasPrefix(addr, "@") {
		s.Set(semconv.ServerAddress(addr))
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return
	}
	if host == "" {
		host = "localhost"
	}
	s.Set(semconv.ServerAddress(host))
	if p, err := strconv.Atoi(port); err == nil && p > 0 && p < 1<<16 {
		s.Set(semconv.ServerPort(p))
	}
}

// begin begins an operation. Operations that the goroutine has begun are over, unless this one is part of them: it has another client
// and begins deeper in the stack.
func (d *decoder) begin(n *probe.Note, op *operation) {
	g := d.goroutines[n.G]
	if g == nil {
		if len(d.goroutines) >= maxKept {
			for id := range d.goroutines {
				d.goroutine(id)
			}
		}
		g = &goroutine{}
		d.goroutines[n.G] = g
	}
	for top := g.top(); top != nil && (top.over != 0 || top.client == op.client || op.depth <= top.depth); top = g.top() {
		if top.over != 0 {
			d.finish(g, top, top.over)
			continue
		}
		top.span.Ending = spans.Unobserved // its end was lost
		d.finish(g, top, n.Time)
	}
	op.attributes = len(op.span.Attributes)
	g.open = append(g.open, op)
	d.tracker.Begin(op.span)
	if op.node { // nothing reports that a node of v8 has no connection
		op.fail(failure{kind: semconv.ErrorTypeOther.Value.AsString()})
		d.tracker.Presume(op.span, 0)
	}
}

func (d *decoder) command(n *probe.Note) {
	op, begins := d.client(n)
	count, sent := n.Word(), n.Word()
	args := make([]string, min(sent, maxArgs))
	for i := range args {
		args[i] = string(n.Text().Bytes)
	}
	if !begins {
		return
	}
	s := op.span
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
	op, begins := d.client(n)
	kind := n.Word()
	op.batch = n.Word()
	count, wrapped, same := n.Word(), n.Word(), n.Word()
	name := string(n.Text().Bytes)
	if !begins {
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
func (d *decoder) release(n *probe.Note, client uint64, f failure) {
	g := d.goroutine(n.G)
	if g == nil {
		return
	}
	g.handled = f.value
	for i, op := range slices.Backward(g.open) {
		if op.client != client {
			continue
		}
		for len(g.open) > i+1 { // their ends were lost
			g.open = g.open[:len(g.open)-1]
		}
		if f.none() {
			op.clear()
			d.finish(g, op, n.Time)
		} else {
			d.fail(g, op, f, n.Time)
		}
		return
	}
}

// failed takes the error of an attempt, which may be made again. If there was a connection, its release has reported the error.
func (d *decoder) failed(n *probe.Note, f failure) {
	g := d.goroutine(n.G)
	if g == nil {
		return
	}
	if g.handled != 0 && g.handled == f.value {
		g.handled = 0
		return
	}
	if op := g.top(); op != nil && !op.node {
		d.fail(g, op, f, n.Time)
	}
}

// batchFailed takes the error with which a batch ends.
func (d *decoder) batchFailed(n *probe.Note, batch uint64, f failure) {
	g := d.goroutine(n.G)
	op := g.top()
	if op == nil || batch == 0 || op.batch != batch {
		return
	}
	op.clear()
	op.fail(f)
	d.finish(g, op, n.Time)
}

// slept takes the end of a pause before another attempt. An error means that there is no other attempt.
func (d *decoder) slept(n *probe.Note, f failure) {
	g := d.goroutine(n.G)
	op := g.top()
	if op == nil || op.over == 0 {
		return
	}
	d.tracker.Continue(op.span)
	op.over = 0
	if f.none() {
		op.attempts++
		return
	}
	op.clear()
	op.fail(f)
	d.finish(g, op, n.Time)
}

// fail takes the error of an attempt. If there may be another attempt, the operation has probably ended.
func (d *decoder) fail(g *goroutine, op *operation, f failure, at int64) {
	op.clear()
	if f.missing() {
		d.finish(g, op, at)
		return
	}
	op.fail(f)
	if op.attempts >= op.retries || f.final() {
		d.finish(g, op, at)
		return
	}
	op.over = at
	d.tracker.Presume(op.span, at)
}

// finish ends the innermost operation of a goroutine.
func (d *decoder) finish(g *goroutine, op *operation, at int64) {
	g.open = slices.DeleteFunc(g.open, func(o *operation) bool { return o == op })
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
