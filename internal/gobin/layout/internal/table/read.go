package table

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrFormat is what all errors about a malformed text wrap.
var ErrFormat = errors.New("malformed layout table")

// Text is a table in its text form, of which only the list of releases has been read.
type Text struct {
	releases []Release
	body     string
}

// Open reads the head of a table.
func Open(text string) (*Text, error) {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		if line == "" || strings.HasPrefix(line, comment) {
			continue
		}
		words := strings.Fields(line)
		if words[0] != wordReleases {
			return nil, fmt.Errorf("%w: no list of releases before %.40q", ErrFormat, line)
		}
		t := &Text{body: rest}
		for _, word := range words[1:] {
			r, extra, err := ParseRelease(word)
			if err != nil || extra != "" {
				return nil, fmt.Errorf("%w: release %.40q", ErrFormat, word)
			}
			t.releases = append(t.releases, r)
		}
		if !slices.IsSortedFunc(t.releases, Release.Compare) {
			return nil, fmt.Errorf("%w: releases out of order", ErrFormat)
		}
		return t, nil
	}
	return nil, fmt.Errorf("%w: empty", ErrFormat)
}

// Releases returns the releases that the table was made from, oldest first.
func (t *Text) Releases() []Release { return slices.Clone(t.releases) }

// Snapshot returns what holds for a release on an architecture: the values of the newest release in the table that is
// not newer. It reads the lines of that architecture only.
func (t *Text) Snapshot(r Release, arch string) (*Snapshot, error) {
	s := NewSnapshot()
	err := t.walk(arch, func(sec section, key, history string) error {
		value, err := valueAt(history, r)
		if err != nil || value == "" {
			return err
		}
		return s.set(sec, key, value)
	}, func(name string, lists []stringList) {
		for _, l := range lists {
			if l.since.Compare(r) <= 0 {
				s.Strings[name] = l.texts
			}
		}
	})
	if err != nil {
		return nil, err
	}
	for name, list := range s.Strings {
		if len(list) == 0 {
			delete(s.Strings, name)
		}
	}
	return s, nil
}

// Same tells whether nothing changes from one release to a newer one on an architecture.
func (t *Text) Same(from, to Release, arch string) (bool, error) {
	same := true
	changes := func(since Release) bool { return since.Compare(from) > 0 && since.Compare(to) <= 0 }
	err := t.walk(arch, func(_ section, _, history string) error {
		return eachChange(history, func(since Release, _ string) { same = same && !changes(since) })
	}, func(_ string, lists []stringList) {
		same = same && !slices.ContainsFunc(lists, func(l stringList) bool { return changes(l.since) })
	})
	return same, err
}

// section is the first line of a section.
type section struct {
	word string
	name string // of the struct or array; empty for constants
}

// stringList is an array of strings and the release that brought it.
type stringList struct {
	since Release
	texts []string
}

// walk calls line for each line of the sections that hold for an architecture, and list for each array of strings.
func (t *Text) walk(arch string, line func(sec section, key, history string) error, list func(string, []stringList)) error {
	rest := t.body
	for rest != "" {
		var text string
		text, rest, _ = strings.Cut(rest, "\n")
		if text == "" || strings.HasPrefix(text, comment) {
			continue
		}
		sec, holds, err := parseTitle(text, arch)
		if err != nil {
			return err
		}
		end := strings.Index(rest, "\n\n")
		if end < 0 {
			end = len(rest)
		}
		lines := rest[:end]
		rest = strings.TrimPrefix(rest[end:], "\n")
		if !holds {
			continue
		}
		if sec.word == wordStrings {
			lists, err := parseLists(lines)
			if err != nil {
				return err
			}
			list(sec.name, lists)
			continue
		}
		if err := eachLine(lines, func(key, history string) error { return line(sec, key, history) }); err != nil {
			return err
		}
	}
	return nil
}

// parseTitle reads the first line of a section and tells whether it holds for an architecture.
func parseTitle(text, arch string) (sec section, holds bool, err error) {
	words := strings.Fields(text)
	sec.word, words = words[0], words[1:]
	switch sec.word {
	case wordConsts:
	case wordStruct, wordStrings:
		if len(words) == 0 {
			return sec, false, fmt.Errorf("%w: unknown name %.40q", ErrFormat, text)
		}
		sec.name, words = words[0], words[1:]
	default:
		return sec, false, fmt.Errorf("%w: unknown section %.40q", ErrFormat, text)
	}
	return sec, slices.Contains(words, arch), nil
}

func eachLine(lines string, f func(key, history string) error) error {
	for lines != "" {
		var text string
		text, lines, _ = strings.Cut(lines, "\n")
		key, history, ok := strings.Cut(text, " ")
		if !ok {
			return fmt.Errorf("%w: line %.40q", ErrFormat, text)
		}
		if err := f(key, history); err != nil {
			return err
		}
	}
	return nil
}

func parseLists(lines string) ([]stringList, error) {
	var lists []stringList
	for lines != "" {
		var text string
		text, lines, _ = strings.Cut(lines, "\n")
		if since, ok := strings.CutPrefix(text, wordSince+" "); ok {
			r, _, err := ParseRelease(since)
			if err != nil {
				return nil, fmt.Errorf("%w: %.40q: %w", ErrFormat, text, err)
			}
			lists = append(lists, stringList{since: r})
			continue
		}
		s, err := strconv.Unquote(text)
		if err != nil || len(lists) == 0 {
			return nil, fmt.Errorf("%w: string %.40q", ErrFormat, text)
		}
		last := &lists[len(lists)-1]
		last.texts = append(last.texts, s)
	}
	return lists, nil
}

// eachChange calls f for each since=value of a line, oldest first.
func eachChange(history string, f func(since Release, value string)) error {
	for history != "" {
		var change string
		change, history, _ = strings.Cut(history, " ")
		since, value, ok := strings.Cut(change, "=")
		r, rest, err := ParseRelease(since)
		if !ok || err != nil || rest != "" {
			return fmt.Errorf("%w: change %.40q", ErrFormat, change)
		}
		f(r, value)
	}
	return nil
}

// valueAt returns the value that a line gives a release, empty when the release does not have it.
func valueAt(history string, r Release) (string, error) {
	value := ""
	err := eachChange(history, func(since Release, v string) {
		if since.Compare(r) <= 0 {
			value = v
		}
	})
	if value == absent {
		value = ""
	}
	return value, err
}

// set stores the value of a line.
func (s *Snapshot) set(sec section, key, value string) error {
	if sec.word == wordConsts {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: constant %s=%.40q", ErrFormat, key, value)
		}
		s.Consts[key] = n
		return nil
	}
	st, ok := s.Structs[sec.name]
	if !ok {
		st.Fields = map[string]Field{}
	}
	if key == wordSize {
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return fmt.Errorf("%w: size %.40q of %s", ErrFormat, value, sec.name)
		}
		st.Size = uint32(n)
		s.Structs[sec.name] = st
		return nil
	}
	offset, size, _ := strings.Cut(value, ":")
	o, err1 := strconv.ParseUint(offset, 10, 32)
	n, err2 := strconv.ParseUint(size, 10, 32)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%w: field %s.%s=%.40q", ErrFormat, sec.name, key, value)
	}
	st.Fields[key] = Field{uint32(o), uint32(n)}
	s.Structs[sec.name] = st
	return nil
}
