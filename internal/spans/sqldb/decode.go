package sqldb

import (
	"bytes"
	"cmp"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/internal/spans/sqltext"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteBegin = iota
	noteDatabase
	notePart
	noteEnd
	noteRetry
	noteMore
)

// Operations and flags, as in probes.c.
const (
	opQuery = iota
	opExec
	opPrepare
	opBegin
	opPing
	opCommit
	opRollback

	opRetries    = 0x10
	opParameters = 0x20
	opDiscards   = 0x40
)

const opMask = 0x0F // of the operation

// Parts of a database, as in probes.c.
const (
	partDSN = iota
	partPGX
	partMySQLAddr
	partMySQLDatabase
	partPGXHost // and the port, in the upper half of the word
	partPGXDatabase
)

// operations are the names of operations that have no statement, and the word before a statement that is only prepared.
var operations = map[uint64]string{opPrepare: "PREPARE", opBegin: "BEGIN", opPing: "PING", opCommit: "COMMIT", opRollback: "ROLLBACK"}

// maxRetries is the number of attempts after which (*DB).retry makes the last one.
const maxRetries = 2

// An operation is one that has begun.
type operation struct {
	span       *spans.Span
	flags      uint64
	retries    int
	attributes int // number of attributes without those of an error

	key       uint64 // of the database
	text      []byte // the beginning of the statement, if it is to have more
	remaining uint64 // bytes of the statement that follow
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker   *join.Tracker
	typeName  func(uint64) (string, error)
	opt       Options
	databases map[uint64]*database  // by key
	open      map[uint64]*operation // by goroutine
}

// maxKept bounds the databases and operations that are kept. Operations whose goroutine has ended are among them.
const maxKept = 1 << 14

func newDecoder(t *join.Tracker, typeName func(uint64) (string, error), o Options) *decoder {
	return &decoder{tracker: t, typeName: typeName, opt: o, databases: map[uint64]*database{}, open: map[uint64]*operation{}}
}

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteBegin:
		d.begin(n)
	case noteDatabase:
		d.database(n)
	case notePart:
		key, part := n.Word(), n.Word()
		text := n.Text()
		if db := d.databases[key]; db != nil && text.Marks == 0 && len(text.Bytes) > 0 {
			db.part(part, string(text.Bytes))
		}
	case noteEnd:
		d.end(n)
	case noteRetry:
		d.retry(n)
	case noteMore:
		d.more(n)
	}
}

func (d *decoder) database(n *probe.Note) {
	key := n.Word()
	connector, _ := d.typeName(n.Word())
	driver, _ := d.typeName(n.Word())
	db := d.databases[key]
	if db == nil {
		if len(d.databases) >= maxKept {
			clear(d.databases)
		}
		db = &database{}
		d.databases[key] = db
	}
	// Each processor or lane describes it, more than once if it could not read something.
	db.connector, db.driver = cmp.Or(connector, db.connector), cmp.Or(driver, db.driver)
}

func (d *decoder) begin(n *probe.Note) {
	flags, object, key := n.Word(), n.Word(), n.Word()
	passed := sets.Contexts(n)
	text := n.Text()
	if op := d.current(n.G); op != nil { // its end was not observed: the last attempt has failed, or a driver has panicked
		op.span.Ending = spans.Unobserved
		d.finish(op, n.Time)
	}
	s := &spans.Span{Library: Library, Kind: trace.SpanKindClient, Start: n.Time, G: n.G, Object: object}
	d.describe(s, flags, key, text)
	d.tracker.Begin(s, passed...)
	if len(d.open) >= maxKept {
		for g, op := range d.open {
			if op.span.End != 0 {
				delete(d.open, g)
			}
		}
	}
	op := &operation{span: s, flags: flags, attributes: len(s.Attributes), key: key}
	if text.Marks == probe.MarkCut {
		op.text, op.remaining = bytes.Clone(text.Bytes), text.Length-uint64(len(text.Bytes))
	}
	d.open[n.G] = op
}

// more takes a piece of the statement of the operation that has begun: a long list of columns can be before the first table.
func (d *decoder) more(n *probe.Note) {
	piece := n.Text()
	op := d.current(n.G)
	if op == nil || piece.Length != op.remaining || piece.Marks&^probe.MarkCut != 0 { // one was lost
		return
	}
	op.text = append(op.text, piece.Bytes...)
	op.remaining -= uint64(len(piece.Bytes))
	op.span.Attributes = nil
	text := probe.Text{Bytes: op.text, Length: uint64(len(op.text)) + op.remaining}
	if op.remaining > 0 {
		text.Marks = probe.MarkCut
	}
	d.describe(op.span, op.flags, op.key, text)
	op.attributes = len(op.span.Attributes)
}

// describe sets the name and the attributes of an operation that begins.
func (d *decoder) describe(s *spans.Span, flags, key uint64, text probe.Text) {
	db := d.databases[key]
	if db == nil { // its description was lost
		db = &database{}
	}
	s.Set(db.attributes()...)
	op := flags & opMask
	verb := operations[op]
	if op != opQuery && op != opExec && op != opPrepare {
		s.Name = verb
		s.Set(semconv.DBOperationName(verb))
		return
	}
	sqltext.Describe(s, sqltext.Text{Bytes: text.Bytes, Cut: text.Marks&probe.MarkCut != 0, Parameters: flags&opParameters != 0, Verb: verb,
		Omit: d.opt.NoText, Unparsed: d.opt.NoParsing})
}

// current returns the operation of a goroutine that has not ended, or nil.
func (d *decoder) current(g uint64) *operation {
	op := d.open[g]
	if op != nil && op.span.End != 0 { // with its goroutine, or with the span around it
		delete(d.open, g)
		return nil
	}
	return op
}

// end takes the success of an operation, or the release of a connection with the error of the operation. A program also releases
// connections when it has read the rows of a query.
func (d *decoder) end(n *probe.Note) {
	failed, typ := n.Word(), n.Word()
	op := d.current(n.G)
	switch {
	case op == nil:
		return
	case failed == 0:
		d.clear(op)
	case op.flags&opRetries != 0 && op.flags&opMask != opPing && op.retries < maxRetries:
		return // its retry follows
	case op.flags&opDiscards == 0:
		d.fail(op, typ)
	}
	d.finish(op, n.Time)
}

// retry takes the error of an attempt.
func (d *decoder) retry(n *probe.Note) {
	again, typ := n.Word(), n.Word()
	op := d.current(n.G)
	if op == nil || op.flags&opRetries == 0 {
		return
	}
	if again == 0 {
		d.fail(op, typ)
		d.finish(op, n.Time)
		return
	}
	// If the last attempt gets no connection, nothing reports its end.
	if op.retries++; op.retries == maxRetries {
		d.fail(op, 0)
	}
}

// finish ends an operation.
func (d *decoder) finish(op *operation, at int64) {
	delete(d.open, op.span.G)
	d.tracker.End(op.span, at)
}

// clear removes what fail has set.
func (d *decoder) clear(op *operation) {
	op.span.Attributes = op.span.Attributes[:op.attributes]
	op.span.Status = codes.Unset
}

// fail sets the type of an error.
func (d *decoder) fail(op *operation, typ uint64) {
	d.clear(op)
	name := semconv.ErrorTypeOther.Value.AsString()
	if typ != 0 {
		if known, err := d.typeName(typ); err == nil {
			name = known
		}
	}
	op.span.Set(semconv.ErrorTypeKey.String(name))
	op.span.Fail("")
}
