package sqltext

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// A Statement is the summary of a SQL text, for grouping.
type Statement struct {
	Summary    string // operations and their targets: "INSERT orders SELECT carts"
	Operation  string // the operation if there is one, as the text has it
	Collection string // the target if there is one, and it is a table or a view
}

const (
	maxSummary = 255 // bytes, by the semantic conventions
	maxDepth   = 64  // of parentheses
)

// A dialect is how a database system reads quotes.
type dialect struct {
	escapes bool // a backslash in a string escapes the next character
	strings bool // double quotes enclose strings, not names
	unsure  bool // the system is unknown
}

// dialectOf returns the dialect of a database system.
func dialectOf(system string) dialect {
	switch system {
	case "postgresql", "sqlite", "microsoft.sql_server", "oracle.db":
		return dialect{}
	case "mysql":
		return dialect{escapes: true, strings: true}
	}
	return dialect{strings: true, unsure: true}
}

// Parse parses the beginning of a statement for a database system, whose name is a value of attribute db.system.name. cut reports that
// the statement has more text.
func Parse(text []byte, system string, cut bool) Statement {
	d := dialectOf(system)
	d.strings = false // a name, where a name is expected
	p := parser{lexer: lexer{text: text, dialect: d}}
	for t := p.next(); t.kind != end; t = p.next() {
		p.take(t)
	}
	s := Statement{Summary: p.summary.String()}
	if p.operations == 1 && !cut {
		s.Operation = p.operation
		if p.targets == 1 && !p.with && !p.other {
			s.Collection = p.target
		}
	}
	return s
}

// parser collects the operations and targets of a statement.
type parser struct {
	lexer
	summary             strings.Builder
	operations, targets int
	operation, target   string // the first ones
	with                bool   // the statement begins with common table expressions, whose names look like tables
	other               bool   // the target is no table
	full                bool

	previous string            // the keyword before, in upper case; "" if the token before was not a word
	selects  [maxDepth]bool    // by depth: the parentheses contain a SELECT
	bracket  bool              // the token before was a parenthesis
	depth    int               // of parentheses
	list     bool              // a list of tables goes on after a comma
	awaits   func(name string) // takes the name that follows; nil if none is expected
}

// take processes a token.
func (p *parser) take(t token) {
	word := ""
	if t.kind == name && !t.quoted {
		word = strings.ToUpper(t.text)
	}
	defer func() { p.previous, p.bracket = word, t.text == "(" || t.text == ")" }()
	switch {
	case t.kind == symbol:
		p.symbol(t.text)
	case p.operations == 0 && p.begin(word, t.text):
	case p.keyword(word, t.text):
	case p.awaits != nil && t.kind == name:
		p.awaits(t.text)
	default:
		p.awaits = nil
		p.list = p.list && t.kind == name // an alias
	}
}

func (p *parser) symbol(s string) {
	wanted := p.awaits != nil
	p.awaits = nil
	switch s {
	case "(":
		p.depth++
		if p.depth < maxDepth {
			p.selects[p.depth] = false
		}
		p.list = false
	case ")":
		p.depth = max(p.depth-1, 0)
		p.list = false
	case ",":
		if p.list && !wanted {
			p.awaits = p.addTable
		}
	case ";":
		p.list, p.depth = false, 0
	default:
		p.list = false
	}
}

// begin processes the first word of a statement, which is its operation. It reports whether the word is one.
func (p *parser) begin(word, text string) bool {
	switch word {
	case "":
		return false
	case "WITH":
		p.with = true
		return true
	case "SELECT":
		p.sets()
	case "UPDATE", "CALL", "EXEC", "EXECUTE":
		p.awaits = p.addTarget
	case "INSERT", "REPLACE", "MERGE", "DELETE":
	case "CREATE", "DROP", "ALTER", "TRUNCATE":
		p.addOperation(text)
		return true
	default:
		if p.with {
			return false // the name of an expression
		}
	}
	p.addOperation(text)
	return true
}

// sets marks the parentheses as those of a SELECT.
func (p *parser) sets() {
	if p.depth < maxDepth {
		p.selects[p.depth] = true
	}
}

// keyword processes a word after the operation. It reports whether the word is a keyword.
func (p *parser) keyword(word, text string) bool {
	switch word {
	case "SELECT":
		p.list = false
		p.sets()
		p.addOperation(text)
	case "INSERT", "DELETE", "MERGE", "UPDATE":
		if !p.with || !p.bracket {
			return p.awaits == nil // SELECT FOR UPDATE, ON DELETE CASCADE
		}
		p.addOperation(text)
		if word == "UPDATE" {
			p.awaits = p.addTarget
		}
	case "FROM":
		// EXTRACT(YEAR FROM t), and IS DISTINCT FROM.
		inExpression := p.depth > 0 && p.depth < maxDepth && !p.selects[p.depth]
		if inExpression || p.previous == "DISTINCT" {
			return true
		}
		p.awaits, p.list = p.addTable, true
	case "JOIN":
		p.awaits, p.list = p.addTable, false
	case "INTO":
		p.awaits, p.list = p.addTarget, false
	case "TABLE", "VIEW", "INDEX", "SCHEMA", "DATABASE", "SEQUENCE":
		if p.operations == 1 && p.targets == 0 && schema[strings.ToUpper(p.operation)] {
			p.add(text)
			p.awaits = p.addTarget
			p.other = word != "TABLE" && word != "VIEW"
		}
	case "IF", "NOT", "EXISTS", "ONLY", "LATERAL", "AS":
		// between a keyword and the name, or between a name and its alias
	case "WHERE", "SET", "VALUES", "ON", "USING", "ORDER", "GROUP", "HAVING", "LIMIT", "UNION", "RETURNING":
		p.awaits, p.list = nil, false
	default:
		return false
	}
	return true
}

// schema are the operations that name what they change by a keyword before its name.
var schema = map[string]bool{"CREATE": true, "DROP": true, "ALTER": true, "TRUNCATE": true}

func (p *parser) addOperation(text string) {
	if p.operations++; p.operations == 1 {
		p.operation = clean(text)
	}
	p.add(text)
}

// addTable takes the name of a table. It ignores the name of a function.
func (p *parser) addTable(text string) {
	if p.peek() == '(' {
		p.awaits = nil
		return
	}
	p.addTarget(text)
}

func (p *parser) addTarget(text string) {
	p.awaits = nil
	text = clean(text)
	if p.targets++; p.targets == 1 {
		p.target = text
	} else if text == p.target {
		p.targets-- // once more
	}
	p.add(text)
}

// add appends a word to the summary if there is room for the whole word.
func (p *parser) add(text string) {
	text = clean(text)
	if p.full || text == "" {
		return
	}
	if p.summary.Len()+1+len(text) > maxSummary {
		p.full = true
		return
	}
	if p.summary.Len() > 0 {
		p.summary.WriteByte(' ')
	}
	p.summary.WriteString(text)
}

// clean returns a name as valid text.
func clean(text string) string {
	if len(text) > maxSummary/2 {
		text = text[:maxSummary/2]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// Sanitize returns the text of a statement for a database system with its literals replaced by question marks. If it is uncertain where
// a literal ends, what follows it is omitted.
func Sanitize(text []byte, system string) string {
	d := dialectOf(system)
	var b strings.Builder
	l, from := lexer{text: text, dialect: d}, 0
	for t := l.next(); t.kind != end; t = l.next() {
		if t.kind == literal {
			b.Write(text[from:t.at])
			b.WriteByte('?')
			from = l.at
			if d.unsure && bytes.IndexByte(text[t.at:l.at], '\\') >= 0 {
				from = len(text)
				break
			}
		}
	}
	b.Write(text[from:])
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

type tokenKind uint8

const (
	end     tokenKind = iota
	name              // a word, or a name with parts and quotes
	literal           // a number or a string
	symbol
)

type token struct {
	kind   tokenKind
	text   string // of names, without quotes
	quoted bool
	at     int // where it begins
}

// lexer splits a statement into tokens.
type lexer struct {
	text    []byte
	dialect dialect
	at      int
}

// next returns the next token. Any text has tokens.
func (l *lexer) next() token {
	l.skip()
	t := token{at: l.at}
	if l.at >= len(l.text) {
		return t
	}
	switch c := l.text[l.at]; {
	case c == '\'' || c == '"' && l.dialect.strings:
		l.quoted(c, l.dialect.escapes)
		t.kind = literal
	case isDigit(c) || c == '.' && l.at+1 < len(l.text) && isDigit(l.text[l.at+1]):
		l.number()
		t.kind = literal
	case c == '$' && l.dollar():
		t.kind = literal
	case isLetter(c) || isQuote(c):
		l.name(&t)
	default:
		_, size := utf8.DecodeRune(l.text[l.at:])
		l.at += size
		if c == '$' || c == ':' || c == '@' { // a parameter
			l.word()
		}
		t.kind, t.text = symbol, string(l.text[t.at:l.at])
	}
	return t
}

// skip skips white space and comments.
func (l *lexer) skip() {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case rest[0] <= ' ':
			l.at++
		case rest[0] == '-' && len(rest) > 1 && rest[1] == '-':
			l.after("\n")
		case rest[0] == '/' && len(rest) > 1 && rest[1] == '*':
			l.at += 2
			l.after("*/")
		default:
			return
		}
	}
}

// after continues after the next occurrence of a text.
func (l *lexer) after(text string) {
	i := bytes.Index(l.text[l.at:], []byte(text))
	if i < 0 {
		l.at = len(l.text)
		return
	}
	l.at += i + len(text)
}

// peek returns the next byte that is not white space or in a comment, or 0.
func (l *lexer) peek() byte {
	ahead := *l
	if ahead.skip(); ahead.at < len(ahead.text) {
		return ahead.text[ahead.at]
	}
	return 0
}

// quoted skips a quoted text. A quote within is doubled, or follows a backslash if that escapes it.
func (l *lexer) quoted(by byte, escapes bool) {
	for l.at++; l.at < len(l.text); l.at++ {
		switch {
		case escapes && l.text[l.at] == '\\':
			l.at++
		case l.text[l.at] != by:
		case l.at+1 < len(l.text) && l.text[l.at+1] == by:
			l.at++
		default:
			l.at++
			return
		}
	}
	l.at = len(l.text)
}

// dollar skips a string of PostgreSQL: $tag$...$tag$. It returns false if there is none.
func (l *lexer) dollar() bool {
	i := l.at + 1
	for i < len(l.text) && isLetter(l.text[i]) {
		i++
	}
	if i >= len(l.text) || l.text[i] != '$' {
		return false
	}
	tag := string(l.text[l.at : i+1])
	l.at = i + 1
	l.after(tag)
	return true
}

func (l *lexer) number() {
	for l.at < len(l.text) && (isDigit(l.text[l.at]) || isLetter(l.text[l.at]) || l.text[l.at] == '.') {
		exponent := l.text[l.at]|0x20 == 'e'
		if l.at++; exponent && l.at < len(l.text) && (l.text[l.at] == '-' || l.text[l.at] == '+') {
			l.at++
		}
	}
}

func (l *lexer) word() {
	for l.at < len(l.text) && (isLetter(l.text[l.at]) || isDigit(l.text[l.at]) || l.text[l.at] == '$') {
		l.at++
	}
}

// name reads a name of parts with dots between them. The prefix of a string, as in E'text', belongs to the string.
func (l *lexer) name(t *token) {
	t.kind = name
	var b strings.Builder
	for l.at < len(l.text) {
		from := l.at
		if c := l.text[from]; isQuote(c) {
			t.quoted = true
			l.quoted(closing(c), false)
			b.Write(l.text[from+1 : max(from+1, l.at-1)])
		} else {
			l.word()
			b.Write(l.text[from:l.at])
		}
		if l.at < len(l.text) && l.text[l.at] == '\'' && l.at-t.at <= 2 && !t.quoted {
			l.quoted('\'', l.dialect.escapes || l.text[from]|0x20 == 'e')
			t.kind = literal
			return
		}
		if l.at+1 >= len(l.text) || l.text[l.at] != '.' || !isLetter(l.text[l.at+1]) && !isQuote(l.text[l.at+1]) {
			break
		}
		b.WriteByte('.')
		l.at++
	}
	t.text = b.String()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= utf8.RuneSelf }

func isQuote(c byte) bool { return c == '"' || c == '`' || c == '[' }

func closing(c byte) byte {
	if c == '[' {
		return ']'
	}
	return c
}
