package flamegraph

import (
	"bufio"
	"encoding/json"
	"strconv"

	"github.com/google/pprof/profile"
)

// A document is the data of the page. It is written as one JSON object whose large parts are columns of numbers:
//
//	title, facts, notes    the header
//	types, type            sample types as pairs of name and unit; the index of the one that is shown first
//	strings                all texts of the columns
//	frames                 columns: name, file, pkg (indexes in strings), flags
//	nodes                  columns: frame, depth, in preorder; node 0 is the root
//	labels                 keys (indexes in strings); sets: for each set, pairs of key and value (indexes in strings)
//	rows                   columns: node, set; values and, in a comparison, old: a column for each sample type
type document struct {
	header  header
	tree    *tree
	strings map[string]int
	texts   []string
}

type header struct {
	Title string      `json:"title"`
	Facts []fact      `json:"facts"`
	Notes []string    `json:"notes"`
	Types [][2]string `json:"types"`
	Type  int         `json:"type"`
}

// Flags of a frame.
const (
	flagInlined = 1 << iota
	flagRuntime // of the Go runtime
	flagOther   // not a function
)

func newDocument(p *profile.Profile, t *tree, opt Options) *document {
	d := &document{tree: t, strings: map[string]int{}}
	d.header = header{Title: clip(opt.Title), Facts: facts(p, t, opt), Notes: notes(p, t, opt), Type: defaultType(p)}
	for _, s := range p.SampleType {
		d.header.Types = append(d.header.Types, [2]string{clip(s.Type), clip(s.Unit)})
	}
	return d
}

// text returns the index of a text.
func (d *document) text(s string) int {
	id, ok := d.strings[s]
	if !ok {
		id = len(d.texts)
		d.strings[s] = id
		d.texts = append(d.texts, clip(s))
	}
	return id
}

// write writes the document. The errors of w are sticky. Package json escapes <, > and &, U+2028 and U+2029, so no text can
// end the script element that contains the document.
func (d *document) write(w *bufio.Writer) {
	head, _ := json.Marshal(d.header) // of strings and numbers only
	w.Write(head[:len(head)-1])
	t := d.tree
	w.WriteString(`,"frames":{`)
	column(w, `"name"`, len(t.frames), func(i int) int { return d.text(t.frames[i].name) })
	column(w, `,"file"`, len(t.frames), func(i int) int { return d.text(t.frames[i].file) })
	column(w, `,"pkg"`, len(t.frames), func(i int) int { return d.text(t.frames[i].pkg()) })
	column(w, `,"flags"`, len(t.frames), func(i int) int { return t.frames[i].flags() })
	w.WriteString(`},"nodes":{`)
	column(w, `"frame"`, len(t.frame), func(i int) int32 { return t.frame[i] })
	column(w, `,"depth"`, len(t.depth), func(i int) int32 { return t.depth[i] })
	w.WriteString(`},"labels":{`)
	column(w, `"keys"`, len(t.labels.keys), func(i int) int { return d.text(t.labels.keys[i]) })
	w.WriteString(`,"sets":[`)
	for i, set := range t.labels.sets {
		if i > 0 {
			w.WriteByte(',')
		}
		values(w, 2*len(set), func(i int) int {
			if i%2 == 0 {
				return d.text(set[i/2].key)
			}
			return d.text(set[i/2].value)
		})
	}
	w.WriteString(`]},"rows":{`)
	column(w, `"node"`, len(t.rows), func(i int) int32 { return t.rows[i].node })
	column(w, `,"set"`, len(t.rows), func(i int) int32 { return t.rows[i].labels })
	d.values(w, `,"values"`, func(r *row) []int64 { return r.values })
	if len(t.rows) > 0 && t.rows[0].old != nil {
		d.values(w, `,"old"`, func(r *row) []int64 { return r.old })
	}
	w.WriteString(`},"strings":`)
	texts, _ := json.Marshal(d.texts)
	w.Write(texts)
	w.WriteByte('}')
}

// values writes the values of the rows, a column for each sample type.
func (d *document) values(w *bufio.Writer, name string, of func(*row) []int64) {
	w.WriteString(name + ":[")
	for i := range d.tree.types {
		if i > 0 {
			w.WriteByte(',')
		}
		values(w, len(d.tree.rows), func(r int) int64 { return of(&d.tree.rows[r])[i] })
	}
	w.WriteByte(']')
}

type integer interface{ ~int | ~int32 | ~int64 }

// column writes a member of an object whose value is an array of numbers.
func column[N integer](w *bufio.Writer, name string, n int, at func(int) N) {
	w.WriteString(name + ":")
	values(w, n, at)
}

// values writes an array of numbers.
func values[N integer](w *bufio.Writer, n int, at func(int) N) {
	var digits [20]byte
	w.WriteByte('[')
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.Write(strconv.AppendInt(digits[:0], int64(at(i)), 10))
	}
	w.WriteByte(']')
}

// flags returns the flags of a frame.
func (f frame) flags() int {
	flags := 0
	pkg := f.pkg()
	if f.inlined {
		flags |= flagInlined
	}
	if ofRuntime(pkg) {
		flags |= flagRuntime
	}
	if pkg == "" {
		flags |= flagOther
	}
	return flags
}
