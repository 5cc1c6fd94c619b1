package sqltext

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ text, summary, operation, collection string }{
		{"", "", "", ""},
		{"SELECT 1", "SELECT", "SELECT", ""},
		{"select * from orders", "select orders", "select", "orders"},
		{"  -- of today\n/* SELECT x FROM y */ SELECT * FROM orders;", "SELECT orders", "SELECT", "orders"},
		{"SELECT * FROM public.orders AS o WHERE id = $1", "SELECT public.orders", "SELECT", "public.orders"},
		{`SELECT * FROM "public"."my orders" o`, "SELECT public.my orders", "SELECT", "public.my orders"},
		{"SELECT * FROM `orders`", "SELECT orders", "SELECT", "orders"},
		{"SELECT * FROM [dbo].[orders]", "SELECT dbo.orders", "SELECT", "dbo.orders"},
		{"SELECT * FROM orders, items i, carts", "SELECT orders items carts", "SELECT", ""},
		{"SELECT * FROM orders o JOIN items i ON i.a = o.a LEFT JOIN orders p USING (a)", "SELECT orders items orders", "SELECT", ""},
		{"SELECT * FROM (SELECT a, b FROM orders) x, y", "SELECT SELECT orders", "", ""},
		{"SELECT (SELECT max(a) FROM t), EXTRACT(YEAR FROM b) FROM u WHERE c IS DISTINCT FROM d", "SELECT SELECT t u", "", ""},
		{"SELECT * FROM generate_series(1, 3)", "SELECT", "SELECT", ""},
		{"SELECT a FROM t FOR UPDATE", "SELECT t", "SELECT", "t"},
		{"SELECT a FROM t WHERE b = 'x FROM y' AND c = 'it''s FROM z'", "SELECT t", "SELECT", "t"},
		{"INSERT INTO orders (a, b) VALUES (1, 2) ON CONFLICT DO UPDATE SET a = 1", "INSERT orders", "INSERT", "orders"},
		{"INSERT INTO orders SELECT * FROM carts", "INSERT orders SELECT carts", "", ""},
		{"UPDATE orders SET a = 1 WHERE b = 2", "UPDATE orders", "UPDATE", "orders"},
		{"UPDATE ONLY orders SET a = 1", "UPDATE orders", "UPDATE", "orders"},
		{"DELETE FROM orders WHERE a IN (SELECT a FROM b)", "DELETE orders SELECT b", "", ""},
		{"REPLACE INTO orders VALUES (1)", "REPLACE orders", "REPLACE", "orders"},
		{"MERGE INTO orders USING x ON a = b", "MERGE orders", "MERGE", "orders"},
		{"WITH x AS (SELECT a FROM orders) SELECT * FROM x", "SELECT orders SELECT x", "", ""},
		{"WITH x AS (SELECT 1) DELETE FROM orders", "SELECT DELETE orders", "", ""},
		{"CREATE TABLE IF NOT EXISTS orders (a INT REFERENCES b ON DELETE CASCADE)", "CREATE TABLE orders", "CREATE", "orders"},
		{"DROP TABLE orders", "DROP TABLE orders", "DROP", "orders"},
		{"ALTER TABLE orders ADD COLUMN a INT", "ALTER TABLE orders", "ALTER", "orders"},
		{"TRUNCATE TABLE orders", "TRUNCATE TABLE orders", "TRUNCATE", "orders"},
		{"DROP VIEW recent", "DROP VIEW recent", "DROP", "recent"},
		{"CREATE UNIQUE INDEX by_a ON orders (a)", "CREATE INDEX by_a", "CREATE", ""},
		{"CREATE SCHEMA IF NOT EXISTS shop", "CREATE SCHEMA shop", "CREATE", ""},
		{"CALL refresh(1)", "CALL refresh", "CALL", "refresh"},
		{"BEGIN", "BEGIN", "BEGIN", ""},
		{"SET search_path = x", "SET", "SET", ""},
		{"PRAGMA foreign_keys = ON", "PRAGMA", "PRAGMA", ""},
		{"SELECT * FROM", "SELECT", "SELECT", ""},
		{"(SELECT a FROM t) UNION (SELECT a FROM u)", "SELECT t SELECT u", "", ""},
		{"123 'x'", "", "", ""},
	} {
		if got := Parse([]byte(test.text), "postgresql", false); got != (Statement{test.summary, test.operation, test.collection}) {
			t.Errorf("%s:\n got %+v\nwant %+v", test.text, got, test)
		}
	}
	if got := Parse([]byte("SELECT a FROM orders"), "postgresql", true); got != (Statement{Summary: "SELECT orders"}) {
		t.Errorf("the beginning of a statement: %+v", got)
	}
	if got := Parse([]byte("SELECT a FROM t"+strings.Repeat(", tables", 100)), "postgresql", false).Summary; len(got) > maxSummary || !strings.HasSuffix(got, " tables") {
		t.Errorf("summary %q", got)
	}
}

func TestSanitize(t *testing.T) {
	for _, test := range []struct{ system, text, want string }{
		{"", "", ""},
		{"postgresql", "SELECT a1 FROM t2 WHERE b = 12 AND c = -1.5e-3 AND d = 0xFF AND e = .5", "SELECT a1 FROM t2 WHERE b = ? AND c = -? AND d = ? AND e = ?"},
		{"postgresql", "WHERE a = 'it''s' AND b = E'x\\'y' AND c = N'z'", "WHERE a = ? AND b = ? AND c = ?"},
		{"postgresql", "WHERE a = $1 AND b = :name AND c = @p1 AND d = ?", "WHERE a = $1 AND b = :name AND c = @p1 AND d = ?"},
		{"postgresql", "WHERE a = $$secret$$ AND b = $tag$ secret $$ $tag$ AND c = 1", "WHERE a = ? AND b = ? AND c = ?"},
		{"postgresql", "WHERE a = 'not closed", "WHERE a = ?"},
		{"postgresql", `SELECT "a'b" FROM [c'd]`, `SELECT "a'b" FROM [c'd]`},
		{"postgresql", `WHERE a = 'C:\' AND b = 'secret'`, "WHERE a = ? AND b = ?"},
		{"mysql", `WHERE a = 'it\'s' AND b = "secret"`, "WHERE a = ? AND b = ?"},
		{"other_sql", `WHERE a = 'C:\' AND b = 'secret'`, "WHERE a = ?"},
		{"other_sql", `WHERE a = "secret" AND b = 1`, "WHERE a = ? AND b = ?"},
	} {
		if got := Sanitize([]byte(test.text), test.system); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"SELECT a FROM b, c JOIN d", "WITH x AS (SELECT 1) INSERT INTO y", "'\\", "$a$ $", "\"", "[a.`b", "/*", "((((", "E'\x00\xff'"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, cut := range []bool{false, true} {
			s := Parse(text, "postgresql", cut)
			if len(s.Summary) > maxSummary || !utf8.ValidString(s.Summary) || !utf8.ValidString(s.Operation) || !utf8.ValidString(s.Collection) {
				t.Errorf("%+v", s)
			}
		}
		for _, system := range []string{"postgresql", "mysql", "other_sql"} {
			clean := Sanitize(text, system)
			if !utf8.ValidString(clean) {
				t.Errorf("%q", clean)
			}
			if again := Sanitize([]byte(clean), system); utf8.Valid(text) && again != clean {
				t.Errorf("%s: %q has literals after %q", system, again, clean)
			}
		}
	})
}
