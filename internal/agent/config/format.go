package config

import "regexp"

// A format is the form of a text. The pattern is also in the JSON schema: it uses what the dialects of Go and ECMAScript have in common.
type format struct {
	pattern *regexp.Regexp
	say     string  // what a text must be
	names   *format // of the names in a mapping
	number  bool    // YAML may also have an integer
	secret  bool    // a text without the format may be a secret
}

// maxText is the maximum length of a text, in characters.
const maxText = 1024

// plainText is any text without control characters.
var plainText = &format{pattern: regexp.MustCompile(`^[^\x00-\x1f\x7f]*$`), say: "a text without control characters"}

var (
	// glob is the patterns that path.Match understands.
	glob      = &format{pattern: regexp.MustCompile("^" + globParts + "+$"), say: globSay}
	labelName = &format{
		pattern: regexp.MustCompile(`^(?:[0-9A-Za-z.-]+/)?[0-9A-Za-z](?:[0-9A-Za-z_.-]*[0-9A-Za-z])?$`),
		say:     "the name of a label, such as app or app.kubernetes.io/name",
	}
	headerName = &format{
		pattern: regexp.MustCompile("^[0-9A-Za-z!#$%&'*+.^_`|~-]+$"),
		say:     "the name of a header",
	}
)

const globSay = `a pattern: * matches any text, ? one character, [a-z] a character of a range; \ quotes the next character`

// globParts matches a part of a pattern: a character, a quoted one, or ranges in brackets, the first of which does not begin with ^.
const (
	globParts = `(?:[^\\\[\x00-\x1f\x7f]|` + globQuoted +
		`|\[(?:\^` + globRange + `|(?:[^\\\]^\x00-\x1f\x7f-]|` + globQuoted + `)` + globEnd + `)` + globRange + `*\])`

	globQuoted = `\\[^\x00-\x1f\x7f]`
	globChar   = `(?:[^\\\]\x00-\x1f\x7f-]|` + globQuoted + `)`
	globEnd    = `(?:-` + globChar + `)?`
	globRange  = `(?:` + globChar + globEnd + `)`
)

// formats are the formats that tags name.
var formats = map[string]*format{
	"glob":  glob,
	"label": {pattern: regexp.MustCompile("^" + globParts + "*$"), say: globSay, names: labelName},
	"header": {
		pattern: regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`),
		say:     "a text without control characters",
		names:   headerName,
	},
	"address": {
		pattern: regexp.MustCompile(`^$|^(?:\[[0-9A-Fa-f:.]+(?:%[0-9A-Za-z._-]+)?\]|[0-9A-Za-z._-]*):` +
			`(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$`),
		say: "HOST:PORT or :PORT, with [HOST] for IPv6",
	},
	"endpoint": {
		pattern: regexp.MustCompile(`^[^\s@\x00-\x1f\x7f]*$`),
		say:     "an address without a user or a password; set those with output.otlp.headers",
		secret:  true,
	},
	"name": {
		pattern: regexp.MustCompile(`^$|^[0-9A-Za-z](?:[0-9A-Za-z._-]*[0-9A-Za-z])?$`),
		say:     "the name of a machine: letters, digits, dots and dashes",
	},
	"path": {
		pattern: plainText.pattern,
		say:     "the name of a file or directory",
	},
	"user": {
		pattern: regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.-]*\$?$`),
		say:     "the name or the number of a user",
		number:  true,
	},
}

// check reports whether a text has a format. nil is plain text.
func (f *format) check(text string) (say string, ok bool) {
	if f == nil {
		f = plainText
	}
	return f.say, f.pattern.MatchString(text)
}
