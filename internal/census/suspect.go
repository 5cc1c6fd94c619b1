package census

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/english"
)

// A crowd is a suspect when it has grown by at least minGrowth, and stayedShare of every stayedOf goroutines seen in it
// at first have not moved: goroutines that come and go through the same line are traffic, not a leak.
const (
	minGrowth   = 2
	stayedShare = 9
	stayedOf    = 10
)

// Suspect is a crowd of goroutines that looks leaked.
type Suspect struct {
	*Crowd
	Population      *Population // that the crowd is a part of
	GrowthPerMinute float64
	Certain         bool   // the Go runtime itself has found that nothing can ever wake them (Go 1.26 and later)
	Evidence        string // one sentence of what was seen
}

// Suspects returns the crowds that look leaked, the fastest growing first: they wait for something that only another
// goroutine can give them, those of the first snapshot are still at the same line, and more have joined. A
// wait for the outside world or for a clock is never suspected.
func (c *Comparison) Suspects() []Suspect {
	var suspects []Suspect
	for _, p := range c.Populations {
		for _, crowd := range p.Crowds {
			certain := crowd.State == event.StateLeaked
			if !certain && !crowd.pilesUp() {
				continue
			}
			suspects = append(suspects, Suspect{
				Crowd: crowd, Population: p, Certain: certain,
				GrowthPerMinute: perMinute(crowd.Grown(), c.Interval),
				Evidence:        crowd.evidence(certain, c.Interval),
			})
		}
	}
	slices.SortStableFunc(suspects, func(a, b Suspect) int { return cmp.Compare(b.GrowthPerMinute, a.GrowthPerMinute) })
	return suspects
}

// pilesUp reports whether goroutines arrive here and do not get away again.
func (c *Crowd) pilesUp() bool {
	if by := c.Activity().EndedBy; by != ByGoroutine && by != ByNobody {
		return false
	}
	return c.Before > 0 && c.Grown() >= minGrowth && c.Stayed*stayedOf >= c.Before*stayedShare
}

// evidence says what was seen of the crowd.
func (c *Crowd) evidence(certain bool, interval time.Duration) string {
	later := interval.Round(100 * time.Millisecond)
	still := fmt.Sprintf("still blocked here %v later, and %d more %s joined", later, c.After-c.Stayed, english.Pick(c.After-c.Stayed, "has", "have"))
	var text string
	switch {
	case c.Before == 0:
		text = fmt.Sprintf("none were here %v earlier", later)
	case c.Stayed == c.Before && c.Before == 1:
		text = "the goroutine of the first snapshot is " + still
	case c.Stayed == c.Before:
		text = fmt.Sprintf("all %d of the first snapshot are %s", c.Before, still)
	default:
		text = fmt.Sprintf("%d of %d of the first snapshot %s %s", c.Stayed, c.Before, english.Pick(c.Stayed, "is", "are"), still)
	}
	if certain {
		return fmt.Sprintf("the Go runtime has found that nothing can wake %s; %s", english.Pick(c.After, "it", "them"), text)
	}
	return text
}

func perMinute(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Minutes()
}
