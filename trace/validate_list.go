package trace

// A validList keeps the first problems of each code and counts all.
type validList struct {
	limit     int // how many of a code are kept
	kept      []Problem
	counts    map[Code]int // of all
	errors    int64
	warnings  int64
	unchecked int64
	number    map[Code]int // of those that are kept
}

func newValidList(limit int) *validList {
	return &validList{limit: limit, counts: map[Code]int{}, number: map[Code]int{}}
}

// count counts a problem. It reports whether there is room for it.
func (l *validList) count(severity Severity, code Code) bool {
	if severity == Error {
		l.errors++
	} else {
		l.warnings++
	}
	l.counts[code]++
	return l.number[code] < l.limit
}

// keep keeps a problem.
func (l *validList) keep(p *Problem) {
	l.number[p.Code]++
	l.kept = append(l.kept, *p)
}

// addAll adds the problems of another list, which come after those of l.
func (l *validList) addAll(o *validList) {
	for i := range o.kept {
		if p := &o.kept[i]; l.number[p.Code] < l.limit {
			l.keep(p)
		}
	}
	for code, n := range o.counts {
		l.counts[code] += n
	}
	l.errors += o.errors
	l.warnings += o.warnings
	l.unchecked += o.unchecked
}
