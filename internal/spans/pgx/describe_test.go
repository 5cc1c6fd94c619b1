package pgx

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/spans"
)

// described returns the span of an operation.
func described(op *operation, statements ...statement) *spans.Span {
	d := newDecoder(nil, Options{})
	d.servers[1] = &server{host: "db.example", database: "books", port: 5433}
	d.prepared[prepared{7, "put"}] = probe.Text{Bytes: []byte("INSERT INTO orders VALUES ($1)")}
	op.span, op.start.conn, op.start.key = &spans.Span{}, 7, 1
	d.describe(op, statements)
	return op.span
}

func TestDescribeText(t *testing.T) {
	for _, test := range []struct {
		text      string
		arguments bool
		name      string
		reported  string
	}{
		{"SELECT a FROM orders WHERE b = 'secret'", false, "SELECT orders", "SELECT a FROM orders WHERE b = ?"},
		{"SELECT a FROM orders WHERE b = 'secret'", true, "SELECT orders", "SELECT a FROM orders WHERE b = ?"}, // an option
		{"SELECT a FROM orders WHERE b = $1 AND c = 2", true, "SELECT orders", "SELECT a FROM orders WHERE b = $1 AND c = 2"},
		{"SELECT a FROM orders WHERE b = @name AND c = 2", true, "SELECT orders", "SELECT a FROM orders WHERE b = @name AND c = 2"},
		{"SELECT a FROM orders WHERE b = $1 AND c = 2", false, "SELECT orders", "SELECT a FROM orders WHERE b = $1 AND c = ?"},
		{"put", true, "INSERT orders", "INSERT INTO orders VALUES ($1)"},
		{"put", false, "INSERT orders", "INSERT INTO orders VALUES ($1)"},
		{"unknown", true, "postgresql", ""},
		{"commit", false, "commit", "commit"},
		{";", false, "postgresql", ";"},
		{"", false, "postgresql", ""},
	} {
		s := described(&operation{op: opExec, start: start{text: probe.Text{Bytes: []byte(test.text)}, arguments: test.arguments}})
		if got := valueOf(s, semconv.DBQueryTextKey); s.Name != test.name || got != test.reported {
			t.Errorf("%q: %q with text %q, want %q, %q", test.text, s.Name, got, test.name, test.reported)
		}
	}
}

// TestReadable reads texts that a probe has not read, or not completely.
func TestReadable(t *testing.T) {
	const constant = 0x400000
	long := "SELECT " + strings.Repeat("a, ", 500) + "b FROM orders"
	d := newDecoder(nil, Options{Constant: func(addr uint64, size int) ([]byte, error) {
		if addr != constant || size > len(long) {
			return nil, errors.New("no constant")
		}
		return []byte(long[:size]), nil
	}})
	length := uint64(len(long))
	for _, test := range []struct {
		name string
		at   uint64
		text probe.Text
		want probe.Text
	}{
		{"read", constant, probe.Text{Bytes: []byte("SELECT 1"), Length: 8}, probe.Text{Bytes: []byte("SELECT 1"), Length: 8}},
		{"not read", constant, probe.Text{Length: 6, Marks: probe.MarkUnreadable}, probe.Text{Bytes: []byte("SELECT"), Length: 6}},
		{"cut", constant, probe.Text{Bytes: []byte(long[:1024]), Length: length, Marks: probe.MarkCut}, probe.Text{Bytes: []byte(long), Length: length}},
		{"on the heap", 0xc000000000, probe.Text{Bytes: []byte(long[:1024]), Length: length, Marks: probe.MarkCut},
			probe.Text{Bytes: []byte(long[:1024]), Length: length, Marks: probe.MarkCut}},
	} {
		if got := d.readable(test.at, test.text); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	s := described(&operation{op: opExec, start: start{text: d.readable(constant, probe.Text{Length: length, Marks: probe.MarkCut})}})
	if got := valueOf(s, semconv.DBQueryTextKey); s.Name != "SELECT orders" || got != long[:1024] {
		t.Errorf("%q with text %q", s.Name, got)
	}
}

func TestDescribeBatch(t *testing.T) {
	one := func(repeats uint64, text string) statement {
		return statement{repeats: repeats, text: probe.Text{Bytes: []byte(text)}}
	}
	for _, test := range []struct {
		size       uint64
		statements []statement
		name       string
		operation  string
		collection string
	}{
		{3, []statement{one(3, "DELETE FROM a")}, "BATCH DELETE a", "BATCH DELETE", "a"},
		{3, []statement{one(1, "DELETE FROM a"), one(2, "DELETE FROM b")}, "BATCH DELETE", "BATCH DELETE", ""},
		{2, []statement{one(1, "DELETE FROM a"), one(1, "SELECT b FROM a")}, "BATCH", "BATCH", "a"},
		{1, []statement{one(1, "DELETE FROM a")}, "DELETE a", "DELETE", "a"},
		{900, []statement{one(64, "DELETE FROM a")}, "BATCH", "BATCH", ""}, // others are not known
		{2, nil, "BATCH", "BATCH", ""},
	} {
		s := described(&operation{op: opBatch, start: start{size: test.size}}, test.statements...)
		operation, collection := valueOf(s, semconv.DBOperationNameKey), valueOf(s, semconv.DBCollectionNameKey)
		if s.Name != test.name || operation != test.operation || collection != test.collection {
			t.Errorf("%+v: %q, operation %q, collection %q", test, s.Name, operation, collection)
		}
	}
}

func TestServer(t *testing.T) {
	for _, test := range []struct {
		server *server
		want   []attribute.KeyValue
	}{
		{nil, []attribute.KeyValue{semconv.DBSystemNamePostgreSQL}},
		{&server{host: "a", port: 5433, database: "b"}, []attribute.KeyValue{semconv.DBSystemNamePostgreSQL, semconv.ServerAddress("a"), semconv.ServerPort(5433), semconv.DBNamespace("b")}},
		{&server{host: "a", port: 5433, several: true}, []attribute.KeyValue{semconv.DBSystemNamePostgreSQL}},
		{&server{host: "/run/postgresql", port: 5432}, []attribute.KeyValue{semconv.DBSystemNamePostgreSQL, semconv.ServerAddress("/run/postgresql")}},
	} {
		got := attribute.NewSet(test.server.attributes()...)
		if want := attribute.NewSet(test.want...); !got.Equals(&want) {
			t.Errorf("%+v: %v, want %v", test.server, got, want)
		}
	}
}

func TestSQLSTATE(t *testing.T) {
	for word, want := range map[uint64]string{0: "", 0x3130503234: "42P01", 0x31305032: "", 0x3130703234: "", 0x313130503234: ""} {
		if got := sqlstate(word); got != want {
			t.Errorf("%#x: %q, want %q", word, got, want)
		}
	}
}
