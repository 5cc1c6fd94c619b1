package config

import (
	"bufio"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loupe-go/loupe/internal/term"
)

// commentColumn is where comments begin in printed configurations, if there is room.
const commentColumn = 44

// Print writes the configuration as YAML, with a comment after each value that is not a default that says where it comes from. Secrets
// are hidden.
func (c *Config) Print(w io.Writer) error {
	p := &printer{Writer: bufio.NewWriter(w), c: c}
	p.section(root(), reflect.ValueOf(c).Elem(), "")
	if names := c.otherVariables(); len(names) > 0 {
		p.WriteString("# other variables of OpenTelemetry: " + term.Escape(strings.Join(names, ", ")) + "\n")
	}
	return p.Flush()
}

// otherVariables returns the names of the OTEL_* variables that are set and have no key.
func (c *Config) otherVariables() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.environ)) {
		if f, _ := c.byVariable(name); f == nil && strings.HasPrefix(name, "OTEL_") {
			names = append(names, name)
		}
	}
	return names
}

type printer struct {
	*bufio.Writer
	c *Config
}

func (p *printer) line(text, path string) {
	p.WriteString(text)
	if origin := p.c.origins[path]; origin != (Origin{}) {
		p.WriteString(strings.Repeat(" ", max(1, commentColumn-utf8.RuneCountInString(text))) + "# " + term.Escape(origin.String()))
	}
	p.WriteString("\n")
}

func (p *printer) section(f *field, in reflect.Value, indent string) {
	for _, c := range f.fields {
		v := c.value(in)
		switch {
		case c.alias != "":
		case c.kind == section:
			p.WriteString(indent + c.key + ":\n")
			p.section(c, v, indent+"  ")
		case c.kind == override && v.Len() == 0:
			p.line(indent+c.key+": []", c.path)
		case c.kind == override:
			p.line(indent+c.key+":", c.path)
			for i := range v.Len() {
				p.WriteString(indent + "  - " + c.renderOverride(v.Index(i)) + "\n")
			}
		default:
			p.line(indent+c.key+": "+c.render(v), c.path)
		}
	}
}
