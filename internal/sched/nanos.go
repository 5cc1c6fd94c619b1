package sched

import (
	"math"
	"math/bits"
	"time"
)

// Nanos is a sum of nanoseconds over many goroutines. A time.Duration would overflow after two and a half hours with a
// million goroutines. It is never negative.
type Nanos struct{ hi, lo uint64 }

// NanosOf returns a duration as a sum; 0 for a negative one.
func NanosOf(d time.Duration) Nanos { return Nanos{lo: uint64(max(d, 0))} }

// Seconds returns the sum in seconds.
func (n Nanos) Seconds() float64 { return (float64(n.hi)*(1<<64) + float64(n.lo)) / 1e9 }

// Duration returns the sum; the longest duration there is (292 years) when it is more.
func (n Nanos) Duration() time.Duration {
	if n.hi > 0 || n.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(n.lo)
}

// Add returns the sum of both.
func (n Nanos) Add(m Nanos) Nanos {
	lo, carry := bits.Add64(n.lo, m.lo, 0)
	hi, _ := bits.Add64(n.hi, m.hi, carry)
	return Nanos{hi, lo}
}

// Sub returns what n is more than m; 0 when it is less.
func (n Nanos) Sub(m Nanos) Nanos {
	lo, borrow := bits.Sub64(n.lo, m.lo, 0)
	hi, borrow := bits.Sub64(n.hi, m.hi, borrow)
	if borrow != 0 {
		return Nanos{}
	}
	return Nanos{hi, lo}
}

// Cmp returns -1, 0 or 1 when n is less than, equal to or more than m.
func (n Nanos) Cmp(m Nanos) int {
	switch {
	case n == m:
		return 0
	case n.hi < m.hi || n.hi == m.hi && n.lo < m.lo:
		return -1
	}
	return 1
}

// Per returns the average over a count; 0 when the count is 0.
func (n Nanos) Per(count uint64) time.Duration {
	if count == 0 {
		return 0
	}
	if n.hi >= count {
		return math.MaxInt64
	}
	q, _ := bits.Div64(n.hi, n.lo, count)
	return time.Duration(min(q, math.MaxInt64))
}

// add adds a non-negative number.
func (n *Nanos) add(d int64) {
	var carry uint64
	n.lo, carry = bits.Add64(n.lo, uint64(d), 0)
	n.hi += carry
}

// take subtracts a number that was added before.
func (n *Nanos) take(d int64) {
	var borrow uint64
	n.lo, borrow = bits.Sub64(n.lo, uint64(d), 0)
	n.hi -= borrow
}

// pool is a set of goroutines in one state. It computes the sum of their times up to any moment without storing them
// individually: their number times the moment, minus the sum of the times at which they entered.
type pool struct {
	n       uint64
	entered Nanos
}

func (p *pool) enter(t int64) {
	p.n++
	p.entered.add(t)
}

func (p *pool) leave(t int64) {
	p.n--
	p.entered.take(t)
}

// merge moves all goroutines of q here.
func (p *pool) merge(q *pool) {
	p.n += q.n
	p.entered = p.entered.Add(q.entered)
	*q = pool{}
}

// open returns the total time since the goroutines entered.
func (p *pool) open(now int64) Nanos {
	hi, lo := bits.Mul64(p.n, uint64(now))
	return Nanos{hi, lo}.Sub(p.entered)
}
