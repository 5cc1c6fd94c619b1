package problem

// A List keeps the first problems of each code and counts all.
type List struct {
	limit     int // how many of a code are kept
	Kept      []Problem
	Counts    map[Code]int // of all
	Errors    int64
	Warnings  int64
	Unchecked int64
	number    map[Code]int // of those that are kept
}

// NewList returns a list that keeps at most limit problems of each code.
func NewList(limit int) *List {
	return &List{limit: limit, Counts: map[Code]int{}, number: map[Code]int{}}
}

// count counts a problem. It reports whether there is room for it.
func (l *List) count(severity Severity, code Code) bool {
	if severity == Error {
		l.Errors++
	} else {
		l.Warnings++
	}
	l.Counts[code]++
	return l.number[code] < l.limit
}

// keep keeps a problem.
func (l *List) keep(p *Problem) {
	l.number[p.Code]++
	l.Kept = append(l.Kept, *p)
}

// AddAll adds the problems of another list, which come after those of l.
func (l *List) AddAll(o *List) {
	for i := range o.Kept {
		if p := &o.Kept[i]; l.number[p.Code] < l.limit {
			l.keep(p)
		}
	}
	for code, n := range o.Counts {
		l.Counts[code] += n
	}
	l.Errors += o.Errors
	l.Warnings += o.Warnings
	l.Unchecked += o.Unchecked
}
