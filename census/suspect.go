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

// A Suspect is a crowd of goroutines that looks leaked.
type Suspect struct {
	*Crowd
	Population      *Population // the population that the crowd belongs to
	GrowthPerMinute float64     // number of goroutines by which the crowd grows in a minute
	Certain         bool        // the runtime has found that nothing can wake the goroutines (Go 1.26 and later)
	Evidence        string      // what was observed, as a sentence for users
}

// Suspects returns the crowds that look leaked, the fastest growing first. The goroutines of such a crowd wait for
// something that only another goroutine can provide. Those of the first snapshot are still waiting at the same line, and
// more have joined. Goroutines that wait for input, output or a timer are never suspected.
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
