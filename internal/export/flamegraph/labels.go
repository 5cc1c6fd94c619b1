package flamegraph

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/export/pprof"
)

// Limits on the labels that the page can select by.
const (
	maxLabelKeys   = 12
	maxLabelValues = 5000 // of one key
)

// A label is one label of a sample.
type label struct{ key, value string }

// labelSets numbers the distinct sets of labels. Set 0 is empty.
type labelSets struct {
	keys    []string // that are used, the most frequent first
	omitted []string // messages about keys that are not used

	sets [][]label
	ids  map[string]int32
	list []label
	key  []byte
}

// newLabelSets selects the keys that are used.
func newLabelSets(stacks []stack) *labelSets {
	samples := map[string]int{}
	values := map[string]map[string]bool{}
	l := &labelSets{sets: [][]label{nil}, ids: map[string]int32{"": 0}}
	for i := range stacks {
		l.list = appendLabels(l.list[:0], stacks[i].sample)
		for _, label := range l.list {
			if values[label.key] == nil {
				values[label.key] = map[string]bool{}
			}
			if of := values[label.key]; len(of) <= maxLabelValues {
				of[label.value] = true
			}
			samples[label.key]++
		}
	}
	for key, of := range values {
		if len(of) > maxLabelValues {
			l.omitted = append(l.omitted, fmt.Sprintf("label %s is omitted: it has more than %d values", clip(key), maxLabelValues))
			continue
		}
		l.keys = append(l.keys, key)
	}
	slices.SortFunc(l.keys, func(a, b string) int { return cmp.Or(cmp.Compare(samples[b], samples[a]), cmp.Compare(a, b)) })
	if n := len(l.keys); n > maxLabelKeys {
		l.omitted = append(l.omitted, fmt.Sprintf("%d of %s are omitted: those of the fewest samples", n-maxLabelKeys, english.Count(n, "label key")))
		l.keys = l.keys[:maxLabelKeys]
	}
	if len(l.omitted) > maxLabelKeys {
		l.omitted = append(l.omitted[:maxLabelKeys-1], "further labels are omitted: they have too many values")
	}
	slices.Sort(l.omitted)
	return l
}

// of returns the number of a sample's set of labels.
func (l *labelSets) of(s *profile.Sample) int32 {
	l.list = slices.DeleteFunc(appendLabels(l.list[:0], s), func(label label) bool { return !slices.Contains(l.keys, label.key) })
	l.key = l.key[:0]
	for _, label := range l.list {
		l.key = append(binary.AppendUvarint(l.key, uint64(len(label.key))), label.key...)
		l.key = append(binary.AppendUvarint(l.key, uint64(len(label.value))), label.value...)
	}
	id, ok := l.ids[string(l.key)]
	if !ok {
		id = int32(len(l.sets))
		l.ids[string(l.key)] = id
		l.sets = append(l.sets, slices.Clone(l.list))
	}
	return id
}

// appendLabels appends the labels of a sample, sorted.
func appendLabels(list []label, s *profile.Sample) []label {
	for key, values := range s.Label {
		if key == pprof.BaseLabel {
			continue
		}
		for _, v := range values {
			list = append(list, label{key, v})
		}
	}
	for key, values := range s.NumLabel {
		units := s.NumUnit[key]
		for i, v := range values {
			unit := ""
			if i < len(units) {
				unit = units[i]
			}
			list = append(list, label{key, strings.TrimSuffix(fmt.Sprintf("%d %s", v, unit), " ")})
		}
	}
	slices.SortFunc(list, func(a, b label) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	return list
}
