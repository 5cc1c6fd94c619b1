package sqldb

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// A database is what is known of a DB of the program.
type database struct {
	connector, driver string // names of their types
	address           address
}

// systems are the systems by the packages of drivers and connectors.
var systems = map[string]attribute.KeyValue{
	"pq": semconv.DBSystemNamePostgreSQL, "stdlib": semconv.DBSystemNamePostgreSQL, "pgdriver": semconv.DBSystemNamePostgreSQL,
	"mysql":   semconv.DBSystemNameMySQL,
	"sqlite3": semconv.DBSystemNameSQLite, "sqlite": semconv.DBSystemNameSQLite,
	"mssql":  semconv.DBSystemNameMicrosoftSQLServer,
	"godror": semconv.DBSystemNameOracleDB, "go_ora": semconv.DBSystemNameOracleDB,
	"clickhouse": semconv.DBSystemNameClickHouse, "spannerdriver": semconv.DBSystemNameGCPSpanner, "trino": semconv.DBSystemNameTrino,
	"hdb": semconv.DBSystemNameSAPHANA, "firebirdsql": semconv.DBSystemNameFirebirdSQL,
}

// dsnConnector is the type of the connector of a driver without a connector type.
const dsnConnector = "sql.dsnConnector"

// packageOf returns the package in the name of a type: "pq" in "*pq.Driver".
func packageOf(name string) string {
	pkg, _, _ := strings.Cut(strings.TrimLeft(name, "*"), ".")
	return pkg
}

// system returns the system by the types of the connector and the driver.
func (d *database) system() attribute.KeyValue {
	name := d.connector
	if name == dsnConnector {
		name = d.driver
	}
	if system, ok := systems[packageOf(name)]; ok {
		return system
	}
	return semconv.DBSystemNameOtherSQL
}

// part takes a string in the connector. It is of the connector only if the type has it there.
func (d *database) part(part uint64, text string) {
	port := int(part >> 32)
	part &= 1<<32 - 1
	switch {
	case part == partDSN && d.connector == dsnConnector:
		d.address = parseDSN(packageOf(d.driver), text)
	case part == partPGX && d.connector == "*stdlib.driverConnector":
		d.address = parseDSN("stdlib", text)
	case part == partPGXHost && d.connector == "stdlib.connector":
		d.address.host, d.address.port = text, port
	case part == partPGXDatabase && d.connector == "stdlib.connector":
		d.address.database = text
	case part == partMySQLAddr && d.connector == "*mysql.connector":
		d.address.setServer(text)
	case part == partMySQLDatabase && d.connector == "*mysql.connector":
		d.address.database = text
	}
}

// attributes returns the attributes of operations on the database. The first one is the system.
func (d *database) attributes() []attribute.KeyValue {
	list := []attribute.KeyValue{d.system()}
	if a := d.address; a.host != "" {
		list = append(list, semconv.ServerAddress(valid(a.host)))
		if a.port > 0 {
			list = append(list, semconv.ServerPort(a.port))
		}
	}
	if name := d.address.database; name != "" {
		list = append(list, semconv.DBNamespace(valid(name)))
	}
	return list
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// An address is the part of a data source name that may be reported.
type address struct {
	host     string
	port     int // 0: the default
	database string
}

// setServer sets the host and port of "host:port", "host", or the path of a socket.
func (a *address) setServer(server string) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || strings.HasPrefix(server, "/") {
		host, port = strings.Trim(server, "[]"), ""
	}
	a.host = host
	a.setPort(port)
}

func (a *address) setPort(text string) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<16 {
		a.port = n
	}
}

// parseDSN returns the address in a data source name of the driver in a package. It returns no part of a name in which it finds no
// address, because that may contain credentials.
func parseDSN(pkg, dsn string) address {
	switch pkg {
	case "pq", "stdlib", "pgdriver":
		if strings.Contains(dsn, "://") {
			return parseURL(dsn)
		}
		return parseWords(dsn)
	case "mysql":
		return parseMySQL(dsn)
	case "mssql":
		if strings.Contains(dsn, "://") {
			a := parseURL(dsn)
			if u, err := url.Parse(dsn); err == nil {
				a.database = u.Query().Get("database") // the path is the instance
			}
			return a
		}
		return parsePairs(dsn)
	case "clickhouse":
		return parseURL(dsn)
	}
	return address{}
}

// parseURL parses "scheme://user:password@host:port/database?host=HOST". Of several hosts, it returns the first.
func parseURL(dsn string) (a address) {
	scheme, rest, _ := strings.Cut(dsn, "://")
	rest, query, _ := strings.Cut(rest, "?")
	rest, _, _ = strings.Cut(rest, "#")
	server, path, _ := strings.Cut(rest, "/")
	server = server[strings.LastIndexByte(server, '@')+1:]
	server, _, _ = strings.Cut(server, ",")
	if at := strings.LastIndexByte(path, '@'); at >= 0 || scheme == "" {
		return address{} // a slash in the password, which is invalid
	}
	if host, err := url.PathUnescape(server); err == nil && server != "" {
		a.setServer(host)
	}
	a.database, _ = url.PathUnescape(path)
	values, err := url.ParseQuery(query)
	if err != nil {
		return a
	}
	for name, set := range map[string]func(string){"host": func(v string) { a.host = v }, "port": a.setPort, "dbname": func(v string) { a.database = v }} {
		if v := values.Get(name); v != "" {
			set(v)
		}
	}
	return a
}

// parseWords parses "host=HOST port=PORT dbname='NAME' password=SECRET".
func parseWords(dsn string) (a address) {
	for dsn != "" {
		name, rest, ok := strings.Cut(dsn, "=")
		if !ok {
			break
		}
		var value string
		value, dsn = word(strings.TrimLeft(rest, " \t\r\n"))
		switch strings.TrimSpace(name) {
		case "host":
			a.host, _, _ = strings.Cut(value, ",")
		case "port":
			value, _, _ = strings.Cut(value, ",")
			a.setPort(value)
		case "dbname", "database":
			a.database = value
		}
	}
	return a
}

// word returns a value, which may be quoted, and the text after it.
func word(text string) (value, rest string) {
	var b strings.Builder
	quoted := strings.HasPrefix(text, "'")
	i := 0
	if quoted {
		i++
	}
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
			continue
		case quoted && c == '\'':
			return b.String(), text[i+1:]
		case !quoted && strings.IndexByte(" \t\r\n", c) >= 0:
			return b.String(), text[i:]
		}
		b.WriteByte(c)
	}
	if quoted { // the quote does not end: what follows may be another value
		return "", ""
	}
	return b.String(), ""
}

// parseMySQL parses "user:password@net(host:port)/database?param=value". The password may contain any character.
func parseMySQL(dsn string) (a address) {
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return a
	}
	a.database, _, _ = strings.Cut(dsn[slash+1:], "?")
	server := dsn[:slash]
	server = server[strings.LastIndexByte(server, '@')+1:]
	if _, in, ok := strings.Cut(server, "("); ok && strings.HasSuffix(in, ")") {
		a.setServer(strings.TrimSuffix(in, ")"))
	}
	return a
}

// parsePairs parses "server=HOST;port=PORT;database=NAME;password=SECRET".
func parsePairs(dsn string) (a address) {
	if strings.ContainsAny(dsn, "{}'\"") {
		return a // a quoted value may contain a semicolon
	}
	for pair := range strings.SplitSeq(dsn, ";") {
		name, value, _ := strings.Cut(pair, "=")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "server", "address", "data source":
			value, _, _ = strings.Cut(strings.TrimPrefix(value, "tcp:"), `\`)
			host, port, _ := strings.Cut(value, ",")
			a.host = host
			a.setPort(port)
		case "port":
			a.setPort(value)
		case "database", "initial catalog":
			a.database = value
		}
	}
	return a
}
