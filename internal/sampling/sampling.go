// Package sampling selects goroutines by a hash of their IDs. The probes have the same rule (in_sample in filters.h), and so does everything
// that reads their events. Its central type is [Rule].
package sampling

import (
	"fmt"
	"math"
)

// A Rule selects a part of all goroutines. The goroutines that a rule selects are among those that any rule with a larger ratio selects.
// The zero value selects all. The value is the number below which a goroutine's hash excludes it.
type Rule uint32

// Least is the smallest ratio.
const Least = 1e-6

// Of returns the rule that selects a part of all goroutines, from Least to 1.
func Of(ratio float64) (Rule, error) {
	if !(ratio >= Least && ratio <= 1) {
		return 0, fmt.Errorf("sampling ratio %v: must be between %v and 1", ratio, Least)
	}
	return Rule(min((1-ratio)*(1<<32), math.MaxUint32)), nil
}

// OneIn returns the rule that selects one in n goroutines. 0 and 1 mean all.
func OneIn(n int) Rule {
	r, err := Of(1 / float64(max(n, 1)))
	if err != nil {
		r, _ = Of(Least)
	}
	return r
}

// Selects reports whether a goroutine is selected. 0, which means no goroutine, always is.
func (r Rule) Selects(goroutine uint64) bool { return r == 0 || hash(goroutine) >= r }

// Ratio returns the part of all goroutines that the rule selects.
func (r Rule) Ratio() float64 { return 1 - float64(r)/(1<<32) }

// Share returns how many of 2^32 goroutines the rule selects: event.Event.Sampled.
func (r Rule) Share() int64 { return 1<<32 - int64(r) }

// OfShare returns the rule that selects a number of 2^32 goroutines.
func OfShare(n int64) Rule { return Rule(1<<32 - min(max(n, 1), 1<<32)) }

// hash returns the place of a goroutine in a random order of all IDs.
func hash(goroutine uint64) Rule {
	h := goroutine * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return ^Rule(h >> 32)
}
