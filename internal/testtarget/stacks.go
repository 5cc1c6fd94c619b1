package testtarget

import (
	"fmt"
	"strconv"
	"strings"
)

// A Goroutine is one goroutine of a runtime.Stack text.
type Goroutine struct {
	ID uint64
	// State is the first element inside the brackets as printed, without its
	// marks (see Extra): "chan receive", "select (no cases)", "syscall".
	State string
	// Minutes is the printed age; 0 when none is printed.
	Minutes int
	// Locked is set for "locked to thread".
	Locked bool
	// Extra holds what else stood inside the brackets: the marks "scan",
	// "durable" and "leaked", and elements such as "synctest bubble 1".
	Extra []string
	// Labels holds the pprof labels, which Go 1.27 and later print; else nil.
	Labels map[string]string
	// Frames is the stack, leaf first. The runtime prints neither its own
	// unexported functions nor the wrappers that the compiler makes, unless
	// nothing else is there. It calls runtime.gopanic "panic" and type
	// arguments "[...]".
	Frames []Frame
	// Elided is set when the runtime says that it left frames out. From Go
	// 1.21 it prints the first 50 and the last 50. Before, it stops after 100
	// physical frames, those it does not print among them, and is silent about
	// it unless it printed all of these: a stack of more than 90 frames may be
	// cut without a word.
	Elided bool
	// ElidedAfter is how many frames were printed before the gap.
	ElidedAfter int
	// ElidedFrames is the printed number of left out frames; 0 when the
	// release prints none.
	ElidedFrames int
	// CreatedBy is the go statement; its Func is empty for the main goroutine
	// and for those of C threads.
	CreatedBy Frame
	// CreatedIn is the goroutine that ran the go statement, or 0 when it is
	// not printed (before Go 1.21, and for goroutines made by a timer).
	CreatedIn uint64
}

// A Frame is one function of a stack.
type Frame struct {
	// Func is the name without its arguments: "main.(*T).Method".
	Func string
	File string
	Line int
	// Inlined is set when the call was inlined into the next frame.
	Inlined bool
}

// Marks that follow the state inside the brackets. Other words in parentheses
// are part of the state's name, as in "select (no cases)".
var stateMarks = []string{"scan", "durable", "leaked"}

// Lines of a traceback that are neither frames nor headers.
const (
	createdByLine  = "created by "
	creatorPart    = " in goroutine "
	ancestorLine   = "[originating from goroutine "
	elidedLine     = "...additional frames elided..."
	elidedSuffix   = " frames elided..."
	nonGoLine      = "non-Go function"
	otherThread    = "goroutine running on other thread; stack unavailable"
	inlinedArgs    = "..."
	goroutineStart = "goroutine "
)

// ParseStacks reads the text of runtime.Stack as any release from Go 1.12 to
// 1.27 prints it. Text before the first goroutine is ignored, as are the stacks
// of ancestors (GODEBUG=tracebackancestors). The error names the line.
func ParseStacks(text string) ([]Goroutine, error) {
	p := stackParser{lines: strings.Split(text, "\n")}
	var all []Goroutine
	for p.next < len(p.lines) {
		line := p.lines[p.next]
		p.next++
		if !strings.HasPrefix(line, goroutineStart) || !strings.HasSuffix(line, ":") {
			continue
		}
		g, err := parseHeader(line)
		if err == nil {
			err = p.body(&g)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", p.next, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// A stackParser goes through the lines of a dump.
type stackParser struct {
	lines []string
	next  int // the line to look at next
}

// body reads the lines that follow a header, up to an empty one.
func (p *stackParser) body(g *Goroutine) error {
	for p.next < len(p.lines) && p.lines[p.next] != "" {
		line := p.lines[p.next]
		p.next++
		switch {
		case strings.HasPrefix(line, ancestorLine):
			p.skip()
			return nil
		case line == otherThread, strings.HasPrefix(line, nonGoLine):
		case strings.HasPrefix(line, "...") && strings.HasSuffix(line, elidedSuffix):
			g.Elided, g.ElidedAfter = true, len(g.Frames)
			if line != elidedLine {
				n, err := strconv.Atoi(line[len("...") : len(line)-len(elidedSuffix)])
				if err != nil {
					return fmt.Errorf("number of elided frames: %w", err)
				}
				g.ElidedFrames = n
			}
		case strings.HasPrefix(line, createdByLine):
			name, creator, ok := cutLast(line[len(createdByLine):], creatorPart)
			if ok {
				id, err := strconv.ParseUint(creator, 10, 64)
				if err != nil {
					return fmt.Errorf("creator: %w", err)
				}
				g.CreatedIn = id
			}
			frame, err := p.location(name, false)
			if err != nil {
				return err
			}
			g.CreatedBy = frame
		default:
			// Arguments have no parentheses inside, names may have some.
			name, args, ok := cutLast(line, "(")
			if !ok || name == "" || !strings.HasSuffix(args, ")") {
				return fmt.Errorf("%q is not a call", line)
			}
			frame, err := p.location(name, args == inlinedArgs+")")
			if err != nil {
				return err
			}
			g.Frames = append(g.Frames, frame)
		}
	}
	return nil
}

// location reads the line with the place of a function.
func (p *stackParser) location(name string, inlined bool) (Frame, error) {
	if p.next == len(p.lines) || !strings.HasPrefix(p.lines[p.next], "\t") {
		return Frame{}, fmt.Errorf("%s has no file and line", name)
	}
	place := p.lines[p.next][1:]
	p.next++
	// Frames that are not inlined have an offset, except at their first
	// instruction. Verbose tracebacks go on with registers.
	place, _, offset := strings.Cut(place, " +0x")
	file, digits, ok := cutLast(place, ":")
	line, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return Frame{}, fmt.Errorf("%q is not a file and line", place)
	}
	return Frame{Func: name, File: file, Line: line, Inlined: inlined && !offset}, nil
}

// skip goes on to the end of the goroutine.
func (p *stackParser) skip() {
	for p.next < len(p.lines) && p.lines[p.next] != "" {
		p.next++
	}
}

// parseHeader reads `goroutine 1 [chan receive, 2 minutes]:` and its variants.
func parseHeader(line string) (g Goroutine, err error) {
	head, rest, ok := strings.Cut(line[len(goroutineStart):], "[")
	if !ok {
		return g, fmt.Errorf("%q has no state", line)
	}
	// Verbose tracebacks have gp=0x1 m=0 mp=0x2 between id and state.
	digits, _, _ := strings.Cut(head, " ")
	if g.ID, err = strconv.ParseUint(digits, 10, 64); err != nil {
		return g, fmt.Errorf("goroutine id: %w", err)
	}
	inside, rest, ok := strings.Cut(rest, "]")
	if !ok {
		return g, fmt.Errorf("%q has no end of the state", line)
	}
	elements := strings.Split(inside, ", ")
	g.State = elements[0]
	for cut := true; cut; {
		cut = false
		for _, mark := range stateMarks {
			if state, ok := strings.CutSuffix(g.State, " ("+mark+")"); ok {
				g.State, cut = state, true
				g.Extra = append([]string{mark}, g.Extra...)
			}
		}
	}
	for _, e := range elements[1:] {
		minutes, isAge := strings.CutSuffix(e, " minutes")
		switch {
		case e == "locked to thread":
			g.Locked = true
		case isAge:
			if g.Minutes, err = strconv.Atoi(minutes); err != nil {
				return g, fmt.Errorf("age: %w", err)
			}
		default:
			g.Extra = append(g.Extra, e)
		}
	}
	rest = strings.TrimSuffix(rest, ":")
	if rest == "" {
		return g, nil
	}
	g.Labels, err = parseLabels(rest)
	return g, err
}

// parseLabels reads ` {key: value, "other key": "value"}`. The runtime quotes
// what has anything but letters, digits, dots, slashes and underscores.
func parseLabels(text string) (map[string]string, error) {
	rest, ok := strings.CutPrefix(text, " {")
	if !ok {
		return nil, fmt.Errorf("%q is no set of labels", text)
	}
	labels := make(map[string]string)
	for {
		key, after, err := labelWord(rest)
		if err != nil {
			return nil, err
		}
		if after, ok = strings.CutPrefix(after, ": "); !ok {
			return nil, fmt.Errorf("label %q has no value", key)
		}
		value, after, err := labelWord(after)
		if err != nil {
			return nil, err
		}
		labels[key] = value
		if after == "}" {
			return labels, nil
		}
		if rest, ok = strings.CutPrefix(after, ", "); !ok {
			return nil, fmt.Errorf("labels go on with %q", after)
		}
	}
}

// labelWord cuts a key or value, which may be quoted or empty, from the front.
func labelWord(text string) (word, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ":,}")
		if end < 0 {
			return "", "", fmt.Errorf("label %q has no end", text)
		}
		return text[:end], text[end:], nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", fmt.Errorf("label %q: %w", text, err)
	}
	word, err = strconv.Unquote(quoted)
	if err != nil {
		return "", "", fmt.Errorf("label %q: %w", text, err)
	}
	return word, text[len(quoted):], nil
}

// cutLast is strings.Cut at the last separator. Without one, before is all of s.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
