// Package table reads and writes the table of package library.
//
// A table is a text of lines. Empty lines and lines that start with # have no meaning. A module starts with its path, and
// the first and the newest version that were examined:
//
//	module std v1.19.0..v1.27.4
//
// Each further line is a field of a struct in that module, with its offsets in bytes:
//
//	net/http.http2serverConn.remoteAddrStr v1.19.0=168 v1.21.0=160 v1.27.0=-
//
// Each offset applies from its version on. "-" means that the field does not exist, or that its offset is unknown.
// Versions are in ascending order. Modules and fields are sorted; the standard library, std, is the first module.
package table

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Std is the path of the standard library as a module.
const Std = "std"

// ErrFormat is wrapped by all errors of Parse.
var ErrFormat = errors.New("invalid table of library fields")

// A Table has the fields of several modules.
type Table struct {
	Modules []Module // sorted by ComparePaths
}

// A Module has the fields of structs in the packages of a module.
type Module struct {
	Path          string
	First, Newest Version // of those that were examined
	Fields        []Field // sorted by path
}

// A Field is a field of a struct.
type Field struct {
	Path    string   // "net/http.Request.URL"
	Changes []Change // oldest first; two neighbours differ
}

// A Change is the offset of a field from a version on.
type Change struct {
	Since  Version
	Known  bool   // the field exists and its offset is known
	Offset uint64 // in bytes
}

// ComparePaths orders the paths of modules.
func ComparePaths(a, b string) int {
	if a == b {
		return 0
	}
	if a == Std {
		return -1
	}
	if b == Std {
		return +1
	}
	return strings.Compare(a, b)
}

// Parse parses a table. Errors wrap ErrFormat and contain the number of the line.
func Parse(text string) (*Table, error) {
	t := &Table{}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := t.parseLine(line); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, i+1, err)
		}
	}
	return t, nil
}

// parseLine adds what a line contains.
func (t *Table) parseLine(line string) error {
	words := strings.Split(line, " ")
	if words[0] == "module" {
		return t.parseModule(words)
	}
	if len(t.Modules) == 0 {
		return errors.New("a field without a module")
	}
	m := &t.Modules[len(t.Modules)-1]
	f, err := m.parseField(words)
	if err != nil {
		return err
	}
	if n := len(m.Fields); n > 0 && m.Fields[n-1].Path >= f.Path {
		return fmt.Errorf("%s is not in order", f.Path)
	}
	m.Fields = append(m.Fields, f)
	return nil
}

// parseModule adds the module in the words of a line, "module std v1.19.0..v1.27.4".
func (t *Table) parseModule(words []string) error {
	if len(words) != 3 || words[1] == "" {
		return errors.New("a module requires a path and two versions")
	}
	m := Module{Path: words[1]}
	first, newest, ok := strings.Cut(words[2], "..")
	if !ok {
		return fmt.Errorf("%.80q is not a range of versions", words[2])
	}
	var err error
	if m.First, err = ParseVersion(first); err != nil {
		return err
	}
	if m.Newest, err = ParseVersion(newest); err != nil {
		return err
	}
	if m.First.Compare(m.Newest) > 0 {
		return fmt.Errorf("%v is newer than %v", m.First, m.Newest)
	}
	if n := len(t.Modules); n > 0 && ComparePaths(t.Modules[n-1].Path, m.Path) >= 0 {
		return fmt.Errorf("module %s is not in order", m.Path)
	}
	t.Modules = append(t.Modules, m)
	return nil
}

// parseField parses the field in the words of a line, "time.Time.loc v1.19.0=16".
func (m *Module) parseField(words []string) (Field, error) {
	f := Field{Path: words[0]}
	if !isPath(f.Path) {
		return f, fmt.Errorf("%.80q is not the path of a field", f.Path)
	}
	if len(words) == 1 {
		return f, fmt.Errorf("%s has no offset", f.Path)
	}
	for _, word := range words[1:] {
		c, err := parseChange(word)
		if err != nil {
			return f, fmt.Errorf("%s: %w", f.Path, err)
		}
		if err := m.follows(f.Changes, c); err != nil {
			return f, fmt.Errorf("%s: %s: %w", f.Path, word, err)
		}
		f.Changes = append(f.Changes, c)
	}
	return f, nil
}

// parseChange parses "v1.19.0=16" and "v1.26.0=-".
func parseChange(word string) (c Change, err error) {
	version, offset, ok := strings.Cut(word, "=")
	if !ok {
		return c, fmt.Errorf("%.80q is not a version and an offset", word)
	}
	if c.Since, err = ParseVersion(version); err != nil || offset == "-" {
		return c, err
	}
	if !isNumber(offset) {
		return c, fmt.Errorf("%.80q is not an offset", offset)
	}
	c.Known = true
	c.Offset, err = strconv.ParseUint(offset, 10, 64)
	return c, err
}

// follows returns an error unless a change can follow those before it.
func (m *Module) follows(before []Change, c Change) error {
	if c.Since.Compare(m.First) < 0 || c.Since.Compare(m.Newest) > 0 {
		return fmt.Errorf("not one of the versions that were examined, %v to %v", m.First, m.Newest)
	}
	if len(before) == 0 {
		if !c.Known {
			return errors.New("the first offset is unknown")
		}
		return nil
	}
	last := before[len(before)-1]
	if last.Since.Compare(c.Since) >= 0 {
		return errors.New("not in order")
	}
	if last.Known == c.Known && last.Offset == c.Offset {
		return errors.New("not a change")
	}
	return nil
}

// isPath reports whether s is the path of a package, the name of a struct, and the path of a field within the struct,
// such as "id" or "header.typ", each separated by a dot.
func isPath(s string) bool {
	parts := strings.Split(s[strings.LastIndexByte(s, '/')+1:], ".")
	return len(parts) >= 3 && !slices.Contains(parts, "")
}

// Module returns the module of a path; nil if the table does not have it.
func (t *Table) Module(path string) *Module {
	for i := range t.Modules {
		if t.Modules[i].Path == path {
			return &t.Modules[i]
		}
	}
	return nil
}

// Write returns a table as text, below the lines of a header.
func (t *Table) Write(header string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(header)) {
		b.WriteString("# " + strings.TrimSuffix(line, "\n") + "\n")
	}
	for _, m := range t.Modules {
		fmt.Fprintf(&b, "\nmodule %s %v..%v\n", m.Path, m.First, m.Newest)
		for _, f := range m.Fields {
			b.WriteString(f.Path)
			for _, c := range f.Changes {
				fmt.Fprintf(&b, " %v=%s", c.Since, c.offset())
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// offset returns the offset as Write prints it.
func (c Change) offset() string {
	if !c.Known {
		return "-"
	}
	return strconv.FormatUint(c.Offset, 10)
}

// At returns the offsets of the fields that exist in a version and have known offsets, by path.
func (m *Module) At(v Version) map[string]uint64 {
	offsets := map[string]uint64{}
	for _, f := range m.Fields {
		for _, c := range f.Changes {
			if c.Since.Compare(v) > 0 {
				break
			}
			delete(offsets, f.Path)
			if c.Known {
				offsets[f.Path] = c.Offset
			}
		}
	}
	return offsets
}
