package flamegraph

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
)

// WriteFolded writes the stacks of a profile as text, one line for each distinct stack: the functions, the outermost first,
// separated by semicolons, then a space and the value of the profile's default sample type. Samples without a value are left
// out. Labels are not written. If old is not nil, the line has two values of this type: first that of old, then that of p.
//
// In the name of a function, a semicolon is written as \x3b, a backslash as \\, and a character that is not printable in the
// syntax of Go.
func WriteFolded(w io.Writer, p, old *profile.Profile) error {
	sums := map[string]*[2]int64{}
	if err := foldInto(sums, p, defaultType(p), 1); err != nil {
		return err
	}
	if old != nil {
		if err := foldInto(sums, old, defaultType(p), 0); err != nil {
			return err
		}
	}
	buf := bufio.NewWriter(w)
	for _, stack := range slices.Sorted(maps.Keys(sums)) {
		values := sums[stack]
		if old == nil {
			fmt.Fprintf(buf, "%s %d\n", stack, values[1])
		} else {
			fmt.Fprintf(buf, "%s %d %d\n", stack, values[0], values[1])
		}
	}
	return buf.Flush()
}

// foldInto adds the values of a sample type to a column.
func foldInto(sums map[string]*[2]int64, p *profile.Profile, sampleType, column int) error {
	table := newFrameTable()
	var names []string // of the frames
	var line []byte
	for _, s := range p.Sample {
		if sampleType >= len(s.Value) {
			return fmt.Errorf("a sample has %s instead of %d", english.Count(len(s.Value), "value"), len(p.SampleType))
		}
		v := s.Value[sampleType]
		switch {
		case v < 0:
			return errors.New("folded stacks cannot have negative values: the profile is a difference")
		case v == 0:
			continue
		}
		stack := table.of(s)
		for _, f := range table.frames[len(names):] {
			names = append(names, escapeFolded(f.name))
		}
		line = line[:0]
		for i, id := range stack {
			if i > 0 {
				line = append(line, ';')
			}
			line = append(line, names[id]...)
		}
		if len(stack) == 0 {
			line = append(line, "(no stack)"...)
		}
		sum := sums[string(line)]
		if sum == nil {
			sum = &[2]int64{}
			sums[string(line)] = sum
		}
		if v > math.MaxInt64-sum[column] {
			return errors.New("the values of the profile are too large: a sum exceeds 64 bits")
		}
		sum[column] += v
	}
	return nil
}

// escapeFolded returns the name of a function as it is written in a line.
func escapeFolded(name string) string {
	harmless := func(r rune) bool { return r != ';' && r != '\\' && r != unicode.ReplacementChar && strconv.IsPrint(r) }
	if strings.IndexFunc(name, func(r rune) bool { return !harmless(r) }) < 0 {
		return name
	}
	var b strings.Builder
	for i, r := range name {
		switch {
		case harmless(r):
			b.WriteRune(r)
		case r == ';':
			b.WriteString(`\x3b`)
		case r == unicode.ReplacementChar && name[i] != "\uFFFD"[0]: // a byte that is not UTF-8
			fmt.Fprintf(&b, `\x%02x`, name[i])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
