package pgx

import (
	"bytes"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/spans/sets"
	"github.com/loupe-go/loupe/internal/spans/sqltext"
	"github.com/loupe-go/loupe/spans"
)

// A start is the begin of an operation as the C half reports it.
type start struct {
	op                    uint64
	conn                  uint64 // the connection; 0 for an operation of a pool
	pool, busy, arguments bool
	key                   uint64   // of the server
	size                  uint64   // number of statements of a batch
	passed                []uint64 // addresses of its context.Context: see join.Tracker.Pass
	names                 [3][]byte
	text                  probe.Text
}

func (d *decoder) readStart(n *probe.Note) start {
	flags := n.Word()
	s := start{op: flags & opMask, pool: flags&opPool != 0, busy: flags&opBusy != 0, arguments: flags&opArguments != 0}
	s.conn, s.key, s.size = n.Word(), n.Word(), n.Word()
	s.passed = sets.Contexts(n)
	at := n.Word()
	for i := range s.names {
		s.names[i] = n.Text().Bytes
	}
	s.text = d.readable(at, n.Text())
	return s
}

// readable returns the text at an address, given what a probe has read of it. It reads constants, of which the probe does not know more:
// engine uprobe cannot read one that the program has not accessed yet, and no engine reads all of a long one.
func (d *decoder) readable(at uint64, t probe.Text) probe.Text {
	if t.Marks&(probe.MarkUnreadable|probe.MarkCut) == 0 {
		return t
	}
	text, err := d.constant(at, int(min(t.Length, maxConstant)))
	if err != nil {
		return t
	}
	t.Bytes, t.Marks = text, 0
	if t.Length > maxConstant {
		t.Marks = probe.MarkCut
	}
	return t
}

// keep copies what is part of the note.
func (s *start) keep() {
	s.text = kept(s.text)
	for i := range s.names {
		s.names[i] = bytes.Clone(s.names[i])
	}
}

// kept returns a text that remains valid after its note.
func kept(t probe.Text) probe.Text {
	t.Bytes = bytes.Clone(t.Bytes)
	return t
}

// waitsFor reports whether an operation of a pool is the one that begins on a connection. Hooks of the pool may perform others before.
func (s *start) waitsFor(begun *start) bool {
	switch s.op {
	case opBegin:
		return begun.op == opExec && len(begun.text.Bytes) >= len("begin") && strings.EqualFold(string(begun.text.Bytes[:len("begin")]), "begin")
	case begun.op:
		return s.size == begun.size && bytes.Equal(s.text.Bytes, begun.text.Bytes) && slices.EqualFunc(s.names[:], begun.names[:], bytes.Equal)
	}
	return false
}

// A statement is one of a batch.
type statement struct {
	repeats   uint64 // the number of times that it follows itself, with the first one
	arguments bool
	text      probe.Text
}

// maxStatements is the number of statements of a batch that the C half reports, maxConstant the number of bytes that are read of a constant.
const (
	maxStatements = 8
	maxConstant   = 4096
)

func (d *decoder) readStatement(n *probe.Note) statement {
	s := statement{repeats: n.Word(), arguments: n.Word() != 0}
	at := n.Word()
	s.text = kept(d.readable(at, n.Text()))
	return s
}

// A server is what is known of a connection.
type server struct {
	host, database string
	port           int
	several        bool // the connection may be to another server of a list
}

func readServer(n *probe.Note) *server {
	ports := n.Word()
	fallback, database, host := n.Text(), n.Text(), n.Text()
	s := &server{host: string(host.Bytes), database: string(database.Bytes), port: int(ports & 0xFFFF)}
	if ports>>32 != 0 { // without TLS, or another server
		s.several = !bytes.Equal(fallback.Bytes, host.Bytes) || ports>>16&0xFFFF != ports&0xFFFF
	}
	return s
}

// attributes returns the attributes of operations.
func (s *server) attributes() []attribute.KeyValue {
	list := []attribute.KeyValue{semconv.DBSystemNamePostgreSQL}
	if s == nil { // its description was lost
		return list
	}
	if s.host != "" && !s.several {
		list = append(list, semconv.ServerAddress(s.host))
		if s.port > 0 && !strings.HasPrefix(s.host, "/") {
			list = append(list, semconv.ServerPort(s.port))
		}
	}
	if s.database != "" {
		list = append(list, semconv.DBNamespace(s.database))
	}
	return list
}

// Verbs of operations that have no statement, or do not execute it.
const (
	verbBatch   = "BATCH"
	verbBegin   = "BEGIN"
	verbCopy    = "COPY"
	verbPrepare = "PREPARE"
)

// describe sets the name and the attributes of an operation that begins. statements are those of a batch.
func (d *decoder) describe(op *operation, statements []statement) {
	s, begun := op.span, &op.start
	s.Set(d.servers[begun.key].attributes()...)
	switch op.op {
	case opExec, opQuery:
		d.describeText(s, begun.conn, begun.text, begun.arguments)
	case opPrepare:
		sqltext.Describe(s, sqltext.Text{Bytes: begun.text.Bytes, Cut: cut(begun.text), Parameters: true, Verb: verbPrepare, Omit: d.opt.NoText, Unparsed: d.opt.NoParsing})
	case opBatch:
		d.describeBatch(s, begun, statements)
	case opCopy:
		table := strings.ToValidUTF8(joinNames(begun.names[:]), "\uFFFD")
		s.Name = strings.TrimSpace(verbCopy + " " + table)
		s.Set(semconv.DBOperationName(verbCopy))
		if table != "" {
			s.Set(semconv.DBCollectionName(table))
		}
		s.Set(semconv.DBQuerySummary(s.Name))
	case opBegin:
		s.Name = verbBegin
		s.Set(semconv.DBOperationName(verbBegin))
	}
}

func cut(t probe.Text) bool { return t.Marks&probe.MarkCut != 0 }

// joinNames returns an identifier of parts.
func joinNames(parts [][]byte) string {
	parts = slices.DeleteFunc(slices.Clone(parts), func(p []byte) bool { return len(p) == 0 })
	return string(bytes.Join(parts, []byte(".")))
}

// describeText describes a statement, or one that was prepared and is executed by its name.
func (d *decoder) describeText(s *spans.Span, conn uint64, text probe.Text, arguments bool) {
	parameters := arguments && hasPlaceholder(text.Bytes)
	if sql, ok := d.prepared[prepared{conn, string(text.Bytes)}]; ok {
		text, parameters = sql, true
	} else if arguments && !parameters && isWord(text.Bytes) { // it was prepared before it could be observed
		text = probe.Text{}
	}
	sqltext.Describe(s, sqltext.Text{Bytes: text.Bytes, Cut: cut(text), Parameters: parameters, Omit: d.opt.NoText, Unparsed: d.opt.NoParsing})
}

// hasPlaceholder reports whether a statement has a parameter, as $1 or @name. Arguments can also be options.
func hasPlaceholder(text []byte) bool {
	for i := range len(text) - 1 {
		next := text[i+1]
		letter := next|0x20 >= 'a' && next|0x20 <= 'z' || next == '_'
		if text[i] == '$' && next >= '1' && next <= '9' || text[i] == '@' && letter {
			return true
		}
	}
	return false
}

// isWord reports whether a text is one word.
func isWord(text []byte) bool {
	return len(text) > 0 && !bytes.ContainsAny(text, " \t\r\n;(")
}

// describeBatch describes a batch. A batch of one statement is described as the statement.
func (d *decoder) describeBatch(s *spans.Span, begun *start, statements []statement) {
	if begun.size == 1 && len(statements) == 1 {
		d.describeText(s, begun.conn, statements[0].text, statements[0].arguments)
		return
	}
	var known uint64
	var common *spans.Span // what all statements have in common
	var texts []string
	for _, one := range statements {
		known += one.repeats
		single := &spans.Span{Attributes: []attribute.KeyValue{semconv.DBSystemNamePostgreSQL}}
		d.describeText(single, begun.conn, one.text, one.arguments)
		if text := valueOf(single, semconv.DBQueryTextKey); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		if common == nil {
			common = single
		}
		common.Attributes = slices.DeleteFunc(common.Attributes, func(a attribute.KeyValue) bool { return valueOf(single, a.Key) != a.Value.AsString() })
	}
	operation, collection, summary := verbBatch, "", verbBatch
	if common != nil && known == begun.size {
		operation = strings.TrimSpace(verbBatch + " " + valueOf(common, semconv.DBOperationNameKey))
		collection = valueOf(common, semconv.DBCollectionNameKey)
		if summary = operation; valueOf(common, semconv.DBQuerySummaryKey) != "" {
			summary = verbBatch + " " + valueOf(common, semconv.DBQuerySummaryKey)
		}
	}
	s.Name = summary
	s.Set(semconv.DBOperationName(operation))
	if collection != "" {
		s.Set(semconv.DBCollectionName(collection))
	}
	s.Set(semconv.DBQuerySummary(summary))
	if known == begun.size && !d.opt.NoText && !slices.Contains(texts, "") {
		s.Set(semconv.DBQueryText(strings.Join(texts, "; ")))
	}
	if begun.size > 1 {
		s.Set(semconv.DBOperationBatchSize(int(begun.size)))
	}
}

// valueOf returns the text of an attribute, or an empty one.
func valueOf(s *spans.Span, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.AsString()
		}
	}
	return ""
}
