package overlay

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

//go:embed patches/*.patch
var patchFiles embed.FS

// A patch is what one concern changes.
type patch struct {
	name  string // of its file, without .patch
	text  string // of its file
	edits []edit
	code  []code
}

// An edit inserts a line of text at an anchor.
type edit struct {
	where        string // says where the edit is in the patch, for errors
	file         string // below GOROOT/src, with slashes
	decl         string // "func newproc1", "func (*timers).run" or "type g"
	place        place
	since, until int // minor releases
	text         string
}

// Code is appended to a file.
type code struct {
	where        string
	file         string
	since, until int
	text         string
}

// A place is where in a declaration an edit inserts its text. These are the forms:
//
//	first                       before the first statement of the function
//	last                        after the last statement of the function
//	last field                  after the last field of the struct
//	before call CALL            before the statement that calls
//	after call CALL             after it
//	before block with call CALL before the innermost if, for, switch or select statement around the call
//	after block with call CALL  after it
//	before N calls CALL         before each of exactly N statements that call; also after
//	before N returns            before each of exactly N return statements
//	end of line LINE            after the only line LINE of the file, whose declaration is "text". It may be in a comment
//
// CALL is the function as it is written, as in trace.GoPark, or the whole call, as in casgstatus(gp, _Grunning, _Gwaiting). Calls
// in function literals count. Returns in them do not.
type place struct {
	kind  placeKind
	after bool
	block bool
	call  string
	count int // of calls or returns
	line  string
}

type placeKind uint8

const (
	placeFirst placeKind = iota
	placeLast
	placeField
	placeCall
	placeReturns
	placeLine
)

// parsePlace parses a form of place.
func parsePlace(text string) (place, error) {
	switch text {
	case "first":
		return place{kind: placeFirst}, nil
	case "last":
		return place{kind: placeLast}, nil
	case "last field":
		return place{kind: placeField}, nil
	}
	if line, ok := strings.CutPrefix(text, "end of line "); ok {
		return place{kind: placeLine, line: line}, nil
	}
	side, rest, _ := strings.Cut(text, " ")
	if count, ok := strings.CutSuffix(rest, " returns"); ok && side == "before" {
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 {
			return place{}, fmt.Errorf("%q is not a number of return statements", count)
		}
		return place{kind: placeReturns, count: n}, nil
	}
	p := place{kind: placeCall, after: side == "after", count: 1}
	if side != "before" && side != "after" {
		return place{}, fmt.Errorf("unknown place %q", text)
	}
	if inner, ok := strings.CutPrefix(rest, "block with "); ok {
		p.block, rest = true, inner
	}
	if count, calls, ok := strings.Cut(rest, " calls "); ok {
		if n, err := strconv.Atoi(count); err == nil && n > 1 {
			p.count, rest = n, "call "+calls
		}
	}
	call, ok := strings.CutPrefix(rest, "call ")
	if !ok || call == "" {
		return place{}, fmt.Errorf("unknown place %q", text)
	}
	p.call = call
	return p, nil
}

// patches returns the patches for a release, in the order of their names.
func patches(fsys fs.FS, minor int) ([]patch, error) {
	files, err := fs.Glob(fsys, "patches/*.patch")
	if err != nil {
		return nil, err
	}
	var list []patch
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, err
		}
		p, err := parsePatch(path.Base(file), string(text), minor)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// parsePatch parses a patch file for a release. Lines before the first header are comments.
func parsePatch(file, text string, minor int) (patch, error) {
	p := patch{name: strings.TrimSuffix(file, ".patch"), text: text}
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		header, ok := strings.CutPrefix(lines[i], "== ")
		if !ok {
			i++
			continue
		}
		where := fmt.Sprintf("%s:%d", file, i+1)
		var body strings.Builder
		for i++; i < len(lines) && !strings.HasPrefix(lines[i], "== "); i++ {
			body.WriteString(lines[i])
		}
		if err := p.add(where, strings.TrimSpace(header), body.String(), minor); err != nil {
			return patch{}, fmt.Errorf("%s: %w", where, err)
		}
	}
	return p, nil
}

// add adds a section of a patch file, unless it is for other releases.
func (p *patch) add(where, header, body string, minor int) error {
	header, since, until, err := cutRange(header)
	if err != nil || minor < since || minor > until {
		return err
	}
	if header, err = expand(header, minor); err != nil {
		return err
	}
	if body, err = expand(body, minor); err != nil {
		return err
	}
	file, rest, ok := strings.Cut(header, ": ")
	if !ok {
		return fmt.Errorf("%q has no file and declaration", header)
	}
	if rest == "code" {
		p.code = append(p.code, code{where, file, since, until, body})
		return nil
	}
	decl, at, ok := strings.Cut(rest, ": ")
	if !ok {
		return fmt.Errorf("%q has no place", header)
	}
	place, err := parsePlace(at)
	if err != nil {
		return err
	}
	body = strings.TrimSpace(body)
	if body == "" || strings.Contains(body, "\n") || strings.Contains(body, "//") {
		return fmt.Errorf("the text of an edit is one line without a comment")
	}
	p.edits = append(p.edits, edit{where, file, decl, place, since, until, body})
	return nil
}

// cutRange cuts the releases off a header: " [1.22-]", " [-1.21]", " [1.23-1.24]" or nothing.
func cutRange(header string) (rest string, since, until int, err error) {
	rest, releases, ok := strings.Cut(header, " [")
	if !ok {
		return header, oldest, newest, nil
	}
	from, to, ok := strings.Cut(strings.TrimSuffix(releases, "]"), "-")
	if !ok {
		return "", 0, 0, fmt.Errorf("%q is not a range of releases", releases)
	}
	since, until = oldest, newest
	for _, end := range []struct {
		text  string
		minor *int
	}{{from, &since}, {to, &until}} {
		if end.text == "" {
			continue
		}
		if *end.minor, err = strconv.Atoi(strings.TrimPrefix(end.text, "1.")); err != nil {
			return "", 0, 0, fmt.Errorf("%q is not a range of releases", releases)
		}
	}
	return rest, since, until, nil
}
