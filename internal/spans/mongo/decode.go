package mongo

import (
	"bytes"
	"encoding/binary"
	"net"
	"strconv"
	"strings"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/spans"
)

// Kinds of notes, as in probes.c.
const (
	noteExecute = iota
	noteCommand
	noteExecuted
)

// internal are the commands by which the driver connects to servers and monitors them.
var internal = map[string]bool{"hello": true, "ismaster": true, "saslstart": true, "saslcontinue": true, "authenticate": true, "getnonce": true}

// onCollection are the commands whose first value is the name of a collection.
var onCollection = map[string]bool{
	"aggregate": true, "collMod": true, "collStats": true, "compact": true, "count": true, "create": true, "createIndexes": true, "delete": true,
	"distinct": true, "drop": true, "dropIndexes": true, "find": true, "findAndModify": true, "insert": true, "killCursors": true,
	"listIndexes": true, "mapReduce": true, "update": true, "validate": true,
}

// An operation is one that has begun.
type operation struct {
	begin          int64
	name, database string
	passed         []uint64    // addresses of its context.Context: see join.Tracker.Pass
	span           *spans.Span // nil until its command is known
	internal       bool
}

// decoder reads the notes of the set. The C half writes them in the same order.
type decoder struct {
	tracker  *join.Tracker
	typeName func(uint64) (string, error)
	open     map[uint64][]*operation // by goroutine, innermost last: encryption performs some within others
}

// Bounds of what is kept.
const (
	maxNested = 16
	maxKept   = 1 << 14
)

func (d *decoder) decode(n *probe.Note) {
	switch n.What {
	case noteExecute:
		name, database := n.Text(), n.Text()
		d.push(n.G, &operation{begin: n.Time, name: string(name.Bytes), database: string(database.Bytes), passed: sets.Contexts(n)})
	case noteCommand:
		d.command(n)
	case noteExecuted:
		d.executed(n)
	}
}

// push adds an operation of a goroutine.
func (d *decoder) push(g uint64, op *operation) {
	list := d.open[g]
	for len(list) > 0 && list[len(list)-1].ended() { // with its goroutine, or with the span around it
		list = list[:len(list)-1]
	}
	if len(list) == maxNested { // the ends of these were not observed: panics
		list = list[1:]
	}
	if len(d.open) >= maxKept {
		clear(d.open)
	}
	d.open[g] = append(list, op)
}

func (o *operation) ended() bool { return o.span != nil && o.span.End != 0 }

// command takes the command that an operation sends. There is another one for each retry.
func (d *decoder) command(n *probe.Note) {
	name, address, document := n.Text(), n.Text(), n.Text()
	list := d.open[n.G]
	if len(list) == 0 {
		return
	}
	op := list[len(list)-1]
	if op.internal = internal[strings.ToLower(string(name.Bytes))]; op.internal || op.ended() {
		return
	}
	if first := commandOf(document.Bytes); first != "" && first != string(name.Bytes) { // the layout is another one
		d.tracker.Mismatch()
		op.internal = true
		return
	}
	if op.span == nil {
		op.name = string(name.Bytes)
		d.begin(n.G, op, collectionOf(op.name, document.Bytes))
	}
	setServer(op.span, string(address.Bytes))
}

// begin begins the span of an operation.
func (d *decoder) begin(g uint64, op *operation, collection string) {
	s := &spans.Span{Library: Library, Kind: trace.SpanKindClient, Start: op.begin, G: g}
	s.Set(semconv.DBSystemNameMongoDB)
	if op.database != "" {
		s.Set(semconv.DBNamespace(op.database))
	}
	target := op.database
	if op.name != "" {
		s.Set(semconv.DBOperationName(op.name))
	}
	if collection != "" {
		s.Set(semconv.DBCollectionName(collection))
		target = collection
	}
	if s.Name = strings.TrimSpace(op.name + " " + target); op.name == "" {
		s.Name = semconv.DBSystemNameMongoDB.Value.AsString()
	}
	op.span = d.tracker.Begin(s, op.passed...)
}

// setServer sets the address of a server, and removes that of an earlier attempt.
func setServer(s *spans.Span, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, ""
	}
	kept := s.Attributes[:0]
	for _, a := range s.Attributes {
		if a.Key != semconv.ServerAddressKey && a.Key != semconv.ServerPortKey {
			kept = append(kept, a)
		}
	}
	if s.Attributes = kept; host == "" {
		return
	}
	s.Set(semconv.ServerAddress(host))
	if p, err := strconv.Atoi(port); err == nil && p > 0 && p < 1<<16 {
		s.Set(semconv.ServerPort(p))
	}
}

// executed takes the end of an operation.
func (d *decoder) executed(n *probe.Note) {
	err := d.readFailure(n)
	list := d.open[n.G]
	if len(list) == 0 {
		return
	}
	op := list[len(list)-1]
	if list = list[:len(list)-1]; len(list) > 0 {
		d.open[n.G] = list
	} else {
		delete(d.open, n.G)
	}
	if op.internal || op.ended() || internal[strings.ToLower(op.name)] {
		return
	}
	if op.span == nil { // it has sent nothing
		if err.name == "" {
			return
		}
		d.begin(n.G, op, "")
	}
	err.set(op.span)
	d.tracker.End(op.span, n.Time)
}

// A failure is the error of an operation.
type failure struct {
	name string // of the type; empty if the operation has succeeded
	code int64  // of the server, or 0
}

// unacknowledged begins the text of an error that does not mean a failure.
const unacknowledged = "unacknow"

// readFailure reads an error.
func (d *decoder) readFailure(n *probe.Note) failure {
	typ, code, wrapped, writeCode, concernCode, text := n.Word(), n.Word(), n.Word(), n.Word(), n.Word(), n.Word()
	if typ == 0 {
		return failure{}
	}
	f := failure{name: d.nameOf(typ)}
	switch f.name {
	case "*errors.errorString":
		if bytes.Equal(binary.LittleEndian.AppendUint64(nil, text), []byte(unacknowledged)) {
			return failure{}
		}
	case "driver.Error":
		if f.code = int64(int32(code)); f.code == 0 && wrapped != 0 { // an error of the network or of a context
			f.name = d.nameOf(wrapped)
		}
	case "driver.WriteCommandError":
		if f.code = int64(writeCode); f.code == 0 {
			f.code = int64(concernCode)
		}
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

func (f failure) set(s *spans.Span) {
	switch {
	case f.name == "":
		return
	case f.code != 0:
		code := strconv.FormatInt(f.code, 10)
		s.Set(semconv.DBResponseStatusCode(code), semconv.ErrorTypeKey.String(code))
	default:
		s.Set(semconv.ErrorTypeKey.String(f.name))
	}
	s.Fail("")
}
