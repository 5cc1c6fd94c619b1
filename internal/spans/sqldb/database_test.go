package sqldb

import (
	"strings"
	"testing"
)

func TestParseDSN(t *testing.T) {
	for _, test := range []struct {
		pkg, dsn string
		want     address
	}{
		{"pq", "postgres://u:secret@db.example:5433/books?sslmode=disable", address{"db.example", 5433, "books"}},
		{"pq", "postgresql://db.example/books", address{"db.example", 0, "books"}},
		{"pq", "postgres://u:secret@[::1]:5433/", address{"::1", 5433, ""}},
		{"pq", "postgres://u:secret@/books?host=/run/postgresql&port=5433", address{"/run/postgresql", 5433, "books"}},
		{"pq", "postgres://u:secret@a:1,b:2/books", address{"a", 1, "books"}},
		{"pq", "postgres://u:sec/ret@db.example/books", address{}},
		{"pq", "postgres://u:sec@ret@db.example/books", address{"db.example", 0, "books"}},
		{"stdlib", "host=db.example port=5433 user=u password='sec ret host=x' dbname = 'my books'", address{"db.example", 5433, "my books"}},
		{"pq", `password=sec\ ret host=db.example dbname=books`, address{"db.example", 0, "books"}},
		{"pq", "dbname=books password='secret host=x", address{database: "books"}},
		{"mysql", "u:secret@tcp(db.example:3307)/books?parseTime=true", address{"db.example", 3307, "books"}},
		{"mysql", "u:se@c/r(e)t@tcp(db.example)/books", address{"db.example", 0, "books"}},
		{"mysql", "u:secret@unix(/run/mysql.sock)/books", address{"/run/mysql.sock", 0, "books"}},
		{"mysql", "u:secret@/books", address{database: "books"}},
		{"mysql", "u:secret", address{}},
		{"mssql", "sqlserver://u:secret@db.example:1433/instance?database=books", address{"db.example", 1433, "books"}},
		{"mssql", `server=db.example\instance;user id=u;password=secret;database=books;port=1433`, address{"db.example", 1433, "books"}},
		{"mssql", "server=db.example;password={sec;server=ret}", address{}},
		{"sqlite3", "file:secret.db?_auth_pass=secret", address{}},
		{"unknown", "u:secret@db.example", address{}},
	} {
		got := parseDSN(test.pkg, test.dsn)
		if got != test.want {
			t.Errorf("%s %s: %+v, want %+v", test.pkg, test.dsn, got, test.want)
		}
	}
}

// TestParts has connectors of each type have the same strings.
func TestParts(t *testing.T) {
	parts := map[uint64]string{partDSN: "postgres://u:secret@dsn:1/one", partPGX: "postgres://u:secret@pgx:2/two", partMySQLAddr: "mysql:3", partMySQLDatabase: "three",
		partPGXHost | 4<<32: "config", partPGXDatabase: "four"}
	for _, test := range []struct {
		database
		want address
	}{
		{database{connector: dsnConnector, driver: "*pq.Driver"}, address{"dsn", 1, "one"}}, {database{connector: "*stdlib.driverConnector"}, address{"pgx", 2, "two"}},
		{database{connector: "*mysql.connector"}, address{"mysql", 3, "three"}}, {database{connector: "stdlib.connector"}, address{"config", 4, "four"}},
		{database{connector: "*other.connector"}, address{}},
	} {
		for part, text := range parts {
			test.part(part, text)
		}
		if test.address != test.want {
			t.Errorf("%s: %+v, want %+v", test.connector, test.address, test.want)
		}
	}
}

func TestSystems(t *testing.T) {
	for _, test := range []struct{ connector, driver, want string }{
		{dsnConnector, "*pq.Driver", "postgresql"}, {"*pq.Connector", "", "postgresql"}, {"*stdlib.driverConnector", "", "postgresql"},
		{"*mysql.connector", "", "mysql"}, {dsnConnector, "*sqlite3.SQLiteDriver", "sqlite"}, {dsnConnector, "*sqlite.Driver", "sqlite"},
		{"*mssql.Connector", "", "microsoft.sql_server"}, {"godror.connector", "", "oracle.db"}, {dsnConnector, "main.driver", "other_sql"}, {"", "", "other_sql"},
	} {
		d := database{connector: test.connector, driver: test.driver}
		if got := d.attributes()[0].Value.AsString(); got != test.want {
			t.Errorf("%+v, want %s", d, test.want)
		}
	}
}

func FuzzParseDSN(f *testing.F) {
	for _, dsn := range []string{"postgres://u:p@h:1/d?host=x", "host=a port='1' password=p", "u:p@tcp(h:1)/d", "server=a,1;database=d"} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		for _, pkg := range []string{"pq", "mysql", "mssql", "clickhouse", "other"} {
			a := parseDSN(pkg, dsn)
			if a.port < 0 || a.port >= 1<<16 || strings.Contains(a.host, "@") && !strings.Contains(dsn, "host") {
				t.Errorf("%s: %+v", pkg, a)
			}
		}
	})
}
