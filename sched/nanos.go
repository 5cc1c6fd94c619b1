package sched

import (
	"math"
	"math/bits"
	"time"
)

// A Nanos is a sum of durations, in nanoseconds. It is never negative, and the zero value is 0. Sums over goroutines need
// more than 64 bits: the time of a million goroutines overflows a time.Duration after two and a half hours. Two sums are
// equal if they are equal by ==.
type Nanos struct{ hi, lo uint64 }

// NanosOf converts a duration. The result is 0 if d is negative.
func NanosOf(d time.Duration) Nanos { return Nanos{lo: uint64(max(d, 0))} }

// Seconds returns the sum in seconds.
func (n Nanos) Seconds() float64 { return (float64(n.hi)*(1<<64) + float64(n.lo)) / 1e9 }

// Duration returns the sum as a duration. It returns the maximum duration (292 years) if the sum is larger.
func (n Nanos) Duration() time.Duration {
	if n.hi > 0 || n.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(n.lo)
}

// Add returns n + m.
func (n Nanos) Add(m Nanos) Nanos {
	lo, carry := bits.Add64(n.lo, m.lo, 0)
	hi, _ := bits.Add64(n.hi, m.hi, carry)
	return Nanos{hi, lo}
}

// Sub returns n - m, or 0 if m is larger than n.
func (n Nanos) Sub(m Nanos) Nanos {
	lo, borrow := bits.Sub64(n.lo, m.lo, 0)
	hi, borrow := bits.Sub64(n.hi, m.hi, borrow)
	if borrow != 0 {
		return Nanos{}
	}
	return Nanos{hi, lo}
}

// Cmp returns -1 if n is less than m, 0 if they are equal, and 1 if n is larger.
func (n Nanos) Cmp(m Nanos) int {
	switch {
	case n == m:
		return 0
	case n.hi < m.hi || n.hi == m.hi && n.lo < m.lo:
		return -1
	}
	return 1
}

// Per returns n divided by count, or 0 if count is 0. It returns the maximum duration if the result is larger.
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

// subtract subtracts a number that was added before, so that the result is not negative.
func (n *Nanos) subtract(d int64) {
	var borrow uint64
	n.lo, borrow = bits.Sub64(n.lo, uint64(d), 0)
	n.hi -= borrow
}

// pool is a set of goroutines in one state. The sum of their times in the state, up to a time t, is n*t - entered. Their
// individual times are not stored.
type pool struct {
	n       uint64 // number of goroutines
	entered Nanos  // sum of the times at which they entered the state
}

func (p *pool) enter(t int64) {
	p.n++
	p.entered.add(t)
}

func (p *pool) leave(t int64) {
	p.n--
	p.entered.subtract(t)
}

// merge moves all goroutines from q to p.
func (p *pool) merge(q *pool) {
	p.n += q.n
	p.entered = p.entered.Add(q.entered)
	*q = pool{}
}

// open returns the total time that the goroutines have been in the state at the time now.
func (p *pool) open(now int64) Nanos {
	hi, lo := bits.Mul64(p.n, uint64(now))
	return Nanos{hi, lo}.Sub(p.entered)
}
