package pgx

import (
	"bytes"
	"cmp"
	"slices"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sqldb"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteBegin = iota
	noteServer
	noteStatement
	noteEnd
	noteRowsClose
	noteReaderClosed
	noteBatchClose
	noteBatchEnd
)

// Operations and flags, as in probes.c.
const (
	opExec = iota
	opQuery
	opBatch
	opCopy
	opPrepare
	opBegin

	opPool      = 0x10
	opBusy      = 0x20
	opArguments = 0x40
)

const opMask = 0x0F // of the operation

// An operation is one that has begun.
type operation struct {
	span  *spans.Span
	op    uint64
	conn  uint64     // the connection, or 0 while the operation waits for one
	start start      // as it was reported
	outer *operation // waits for a connection meanwhile
	close int64      // when the program began to close the results of a batch; 0: not yet
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	constant func(addr uint64, size int) ([]byte, error)
	opt      Options

	servers    map[uint64]*server      // by key
	statements map[uint64][]statement  // of a batch that begins, by goroutine
	open       map[uint64]*operation   // that their goroutine ends, by goroutine
	active     map[uint64][]*operation // that any goroutine may end, by connection, newest last
	rows       map[uint64]closing      // rows that are being closed, by goroutine
	results    map[uint64][]*operation // batches whose results are being closed, by goroutine; nil for others
	prepared   map[prepared]probe.Text // statements by the names that the program has given them
}

// maxKept bounds each of these maps. Operations whose goroutine has ended are among them.
const maxKept = 1 << 14

// closing are rows that are being closed.
type closing struct {
	op  *operation // nil if nothing ends with them
	err failure
}

// prepared identifies a prepared statement.
type prepared struct {
	conn uint64
	name string
}

func newDecoder(t *join.Tracker, o Options) *decoder {
	return &decoder{tracker: t, typeName: o.TypeName, constant: o.Constant, opt: o, servers: map[uint64]*server{}, statements: map[uint64][]statement{},
		open: map[uint64]*operation{}, active: map[uint64][]*operation{}, rows: map[uint64]closing{}, results: map[uint64][]*operation{},
		prepared: map[prepared]probe.Text{}}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteBegin:
		d.begin(n, d.readStart(n))
	case noteServer:
		key := n.Word()
		// Each processor or lane describes it, more than once if it could not read something.
		if s := readServer(n); s.host != "" || d.servers[key] == nil {
			keep(d.servers, key, s)
		}
	case noteStatement:
		list := append(d.statements[n.G], d.readStatement(n))
		if len(list) <= maxStatements {
			keep(d.statements, n.G, list)
		}
	case noteEnd:
		op := n.Word()
		d.end(n, op, d.readFailure(n))
	case noteRowsClose:
		d.rowsClose(n)
	case noteReaderClosed:
		n.Word()
		err := d.readFailure(n)
		closed := d.rows[n.G]
		delete(d.rows, n.G)
		if closed.op != nil {
			d.finish(closed.op, closed.err.or(err), n.Time)
		}
	case noteBatchClose:
		d.batchClose(n)
	case noteBatchEnd:
		d.batchEnd(n)
	}
}

// keep sets an element of a map that is bounded.
func keep[K comparable, V any](m map[K]V, key K, value V) {
	if len(m) >= maxKept {
		clear(m)
	}
	m[key] = value
}

func (d *decoder) begin(n *probe.Note, s start) {
	statements := d.statements[n.G]
	delete(d.statements, n.G)
	if s.op == opPrepare && s.conn != 0 && len(s.names[0]) > 0 {
		keep(d.prepared, prepared{s.conn, string(s.names[0])}, kept(s.text))
	}
	switch outer := d.current(n.G); {
	case s.conn == 0 && !s.pool: // a pgx.Conn has a connection
		d.tracker.Mismatch()
	case d.tracker.Innermost(n.G, sqldb.Library, trace.SpanKindClient) != nil: // a driver performs it for package database/sql
	case outer != nil && outer.conn == 0 && !s.pool && outer.start.waitsFor(&s):
		d.join(outer, s)
	case s.op == opPrepare && d.within(n.G, s.conn): // the statement of an operation
	case outer != nil && outer.conn == 0 && !s.pool: // a hook of the pool uses a connection
		d.add(n, s, statements, outer)
	default:
		if outer != nil { // its end was not observed: a panic
			d.abandon(outer, n.Time)
		}
		d.add(n, s, statements, nil)
	}
}

// add begins the span of an operation.
func (d *decoder) add(n *probe.Note, s start, statements []statement, outer *operation) {
	if s.conn != 0 && !s.busy {
		for _, op := range slices.Clone(d.active[s.conn]) { // a connection performs one operation at a time
			d.abandon(op, n.Time)
		}
	}
	op := &operation{op: s.op, conn: s.conn, start: s, outer: outer}
	op.span = &spans.Span{Library: Library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Object: s.conn}
	d.describe(op, statements)
	op.start.keep()
	d.tracker.Begin(op.span, s.passed...)
	keep(d.open, n.G, op)
	if s.conn != 0 {
		d.detach(op)
	}
}

// join takes the begin of an operation on the connection for which it has waited.
func (d *decoder) join(op *operation, s start) {
	if op.op == opBegin {
		op.op, op.start, op.span.Attributes = s.op, s, nil
		d.describe(op, nil)
		op.start.keep()
	}
	op.conn, op.span.Object = s.conn, s.conn
	d.detach(op)
}

// detach removes an operation that goes on after its function has returned from those of its goroutine.
func (d *decoder) detach(op *operation) {
	if op.op != opQuery && op.op != opBatch {
		return
	}
	d.close(op)
	list := d.active[op.conn]
	d.tracker.Detach(op.span, op.conn+uint64(len(list)))
	keep(d.active, op.conn, append(list, op))
}

// current returns the operation of a goroutine that has not ended, or nil.
func (d *decoder) current(g uint64) *operation {
	op := d.open[g]
	for op != nil && op.span.End != 0 { // with its goroutine, or with the span around it
		d.close(op)
		op = d.open[g]
	}
	return op
}

// within reports whether a connection performs an operation of a goroutine.
func (d *decoder) within(g, conn uint64) bool {
	op := d.current(g)
	return op != nil && op.conn == conn || slices.ContainsFunc(d.active[conn], func(op *operation) bool { return op.span.End == 0 })
}

// close removes an operation from those of its goroutine.
func (d *decoder) close(op *operation) {
	if g := op.span.G; d.open[g] == op {
		delete(d.open, g)
		if op.outer != nil {
			d.open[g] = op.outer
		}
	}
}

// end takes the end of an operation by its goroutine.
func (d *decoder) end(n *probe.Note, what uint64, err failure) {
	op := d.current(n.G)
	switch {
	case op == nil:
	case what == opPool:
		if op.conn == 0 {
			d.finish(op, err, n.Time)
		}
	case op.op == what:
		d.finish(op, err, n.Time)
	case op.op == opCopy && what == opPrepare && err.name != "": // it has asked for the types of the columns, and fails
		d.finish(op, err, n.Time)
	}
}

// newest returns the operation that a connection has begun last, if it is of a kind; or nil.
func (d *decoder) newest(conn, op uint64) *operation {
	list := d.active[conn]
	if len(list) == 0 || list[len(list)-1].op != op {
		return nil
	}
	return list[len(list)-1]
}

// rowsClose takes the begin of the method that closes rows.
func (d *decoder) rowsClose(n *probe.Note) {
	conn, hasReader := n.Word(), n.Word() != 0
	err := d.readFailure(n)
	op := d.newest(conn, opQuery)
	if hasReader {
		keep(d.rows, n.G, closing{op, err})
	} else if op != nil {
		d.finish(op, err, n.Time)
	}
}

// maxNested bounds the results that a goroutine closes while it closes others.
const maxNested = 16

func (d *decoder) batchClose(n *probe.Note) {
	conn, again := n.Word(), n.Word() != 0
	op := d.newest(conn, opBatch)
	if again {
		op = nil
	}
	if op != nil {
		op.close = n.Time
	}
	list := append(d.results[n.G], op)
	if len(list) > maxNested { // the ends of these were not observed
		list = list[1:]
	}
	keep(d.results, n.G, list)
}

func (d *decoder) batchEnd(n *probe.Note) {
	n.Word()
	err := d.readFailure(n)
	list := d.results[n.G]
	if len(list) == 0 {
		return
	}
	op := list[len(list)-1]
	if list = list[:len(list)-1]; len(list) > 0 {
		d.results[n.G] = list
	} else {
		delete(d.results, n.G)
	}
	if op != nil {
		d.finish(op, err, n.Time)
	}
}

// abandon ends an operation whose end was not observed.
func (d *decoder) abandon(op *operation, at int64) {
	op.span.Ending = spans.Unobserved
	d.finish(op, failure{}, cmp.Or(op.close, at))
}

// finish ends an operation.
func (d *decoder) finish(op *operation, err failure, at int64) {
	d.close(op)
	if list := d.active[op.conn]; op.conn != 0 {
		if list = slices.DeleteFunc(list, func(o *operation) bool { return o == op }); len(list) > 0 {
			d.active[op.conn] = list
		} else {
			delete(d.active, op.conn)
		}
	}
	if op.span.End != 0 {
		return
	}
	err.set(op.span)
	d.tracker.End(op.span, at)
}

// A failure is the error of an operation.
type failure struct {
	name string // of the type; empty if the operation has succeeded
	code string // SQLSTATE, or empty
}

func (f failure) or(other failure) failure {
	if f.name != "" {
		return f
	}
	return other
}

// wrappers are types of errors that contain another one, and after how many strings.
var wrappers = map[string]int{"*pgconn.PrepareError": 0, "*fmt.wrapError": 1, "*pgconn.pgconnError": 1, "pgx.ErrPreprocessingBatch": 2}

// readFailure reads an error.
func (d *decoder) readFailure(n *probe.Note) failure {
	var types, states [4]uint64 // of the error, and of what can be in it
	for i := range types {
		types[i], states[i] = n.Word(), n.Word()
	}
	if types[0] == 0 {
		return failure{}
	}
	const server = "*pgconn.PgError"
	f := failure{name: d.nameOf(types[0])}
	if f.name == server {
		f.code = sqlstate(states[0])
	} else if i, ok := wrappers[f.name]; ok && d.nameOf(types[1+i]) == server {
		f.code = sqlstate(states[1+i])
	}
	return f
}

// nameOf returns the name of the type at an address.
func (d *decoder) nameOf(typ uint64) string {
	if typ != 0 {
		if name, err := d.typeName(typ); err == nil && name != "" {
			return name
		}
	}
	return semconv.ErrorTypeOther.Value.AsString()
}

// sqlstate returns the SQLSTATE in a word, or an empty text if the word does not contain one.
func sqlstate(word uint64) string {
	code := make([]byte, 0, 8)
	for ; word != 0; word >>= 8 {
		code = append(code, byte(word))
	}
	if len(code) != 5 || bytes.ContainsFunc(code, func(r rune) bool { return (r < '0' || r > '9') && (r < 'A' || r > 'Z') }) {
		return ""
	}
	return string(code)
}

func (f failure) set(s *spans.Span) {
	switch {
	case f.name == "":
		return
	case f.code != "":
		s.Set(semconv.DBResponseStatusCode(f.code), semconv.ErrorTypeKey.String(f.code))
	default:
		s.Set(semconv.ErrorTypeKey.String(f.name))
	}
	s.Fail("")
}
