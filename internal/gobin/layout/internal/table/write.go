package table

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Build is one release's snapshots by architecture.
type Build struct {
	Release Release
	Arches  map[string]*Snapshot
}

// Write returns the text of the given releases, header first.
func Write(header string, builds []Build) []byte {
	builds = slices.Clone(builds)
	slices.SortFunc(builds, func(a, b Build) int { return a.Release.Compare(b.Release) })
	w := writer{builds: builds}
	for _, line := range strings.Split(strings.TrimSpace(header), "\n") {
		fmt.Fprintf(&w.out, "%s %s\n", comment, line)
	}
	w.out.WriteString(wordReleases)
	for _, b := range builds {
		fmt.Fprintf(&w.out, " %v", b.Release)
	}
	w.out.WriteByte('\n')
	for _, name := range w.names(func(s *Snapshot) []string { return slices.Collect(maps.Keys(s.Structs)) }) {
		w.section(wordStruct+" "+name, func(s *Snapshot) map[string]string { return structLines(s, name) })
	}
	w.section(wordConsts, constLines)
	for _, name := range w.names(func(s *Snapshot) []string { return slices.Collect(maps.Keys(s.Strings)) }) {
		w.strings(name)
	}
	return w.out.Bytes()
}

type writer struct {
	builds []Build
	out    bytes.Buffer
}

// names returns the sorted union of what each snapshot has.
func (w *writer) names(of func(*Snapshot) []string) []string {
	set := map[string]bool{}
	for _, b := range w.builds {
		for _, s := range b.Arches {
			for _, name := range of(s) {
				set[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

func (w *writer) arches() []string {
	set := map[string]bool{}
	for _, b := range w.builds {
		for arch := range b.Arches {
			set[arch] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// structLines returns a struct's values by the name of the line.
func structLines(s *Snapshot, name string) map[string]string {
	st, ok := s.Structs[name]
	if !ok {
		return nil
	}
	lines := map[string]string{wordSize: strconv.Itoa(int(st.Size))}
	for path, f := range st.Fields {
		lines[path] = fmt.Sprintf("%d:%d", f.Offset, f.Size)
	}
	return lines
}

func constLines(s *Snapshot) map[string]string {
	lines := map[string]string{}
	for name, v := range s.Consts {
		lines[name] = strconv.FormatInt(v, 10)
	}
	return lines
}

// section writes the lines of one section: what is alike on all architectures once, the rest for each.
func (w *writer) section(title string, lines func(*Snapshot) map[string]string) {
	byArch := map[string]map[string]string{}
	arches := w.arches()
	for _, arch := range arches {
		byArch[arch] = w.histories(arch, lines)
	}
	common := map[string]string{}
	for key, history := range byArch[arches[0]] {
		if !slices.ContainsFunc(arches, func(arch string) bool { return byArch[arch][key] != history }) {
			common[key] = history
		}
	}
	w.lines(title+" "+strings.Join(arches, " "), common, nil)
	for _, arch := range arches {
		w.lines(title+" "+arch, byArch[arch], common)
	}
}

// lines writes a section without the lines that are in except.
func (w *writer) lines(title string, lines, except map[string]string) {
	started := false
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		if _, ok := except[key]; ok {
			continue
		}
		if !started {
			fmt.Fprintf(&w.out, "\n%s\n", title)
			started = true
		}
		fmt.Fprintf(&w.out, "%s %s\n", key, lines[key])
	}
}

// histories returns, for every line, its value at each release that changes it.
func (w *writer) histories(arch string, lines func(*Snapshot) map[string]string) map[string]string {
	histories, last := map[string]string{}, map[string]string{}
	for _, b := range w.builds {
		s, ok := b.Arches[arch]
		if !ok {
			continue
		}
		now := lines(s)
		for key, value := range now {
			if last[key] != value {
				histories[key] = appendChange(histories[key], b.Release, value)
				last[key] = value
			}
		}
		for key, value := range last {
			if _, ok := now[key]; !ok && value != absent {
				histories[key] = appendChange(histories[key], b.Release, absent)
				last[key] = absent
			}
		}
	}
	return histories
}

func appendChange(history string, r Release, value string) string {
	return strings.TrimSpace(history + " " + r.String() + "=" + value)
}

// strings writes an array of strings as often as it changes.
func (w *writer) strings(name string) {
	arches := w.arches()
	texts := map[string]string{}
	for _, arch := range arches {
		var out strings.Builder
		last := ""
		for _, b := range w.builds {
			s, ok := b.Arches[arch]
			if !ok {
				continue
			}
			now := quoted(s.Strings[name])
			if now != last {
				fmt.Fprintf(&out, "%s %v\n%s", wordSince, b.Release, now)
				last = now
			}
		}
		texts[arch] = out.String()
	}
	if !slices.ContainsFunc(arches, func(arch string) bool { return texts[arch] != texts[arches[0]] }) {
		fmt.Fprintf(&w.out, "\n%s %s %s\n%s", wordStrings, name, strings.Join(arches, " "), texts[arches[0]])
		return
	}
	for _, arch := range arches {
		fmt.Fprintf(&w.out, "\n%s %s %s\n%s", wordStrings, name, arch, texts[arch])
	}
}

func quoted(list []string) string {
	var out strings.Builder
	for _, s := range list {
		out.WriteString(strconv.Quote(s))
		out.WriteByte('\n')
	}
	return out.String()
}
