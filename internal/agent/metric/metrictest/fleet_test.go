package metrictest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loupe-go/loupe/internal/agent/metric"
)

// values returns the values of all series, by a key; those of histograms are counts.
func values(groups []metric.Group) map[string]float64 {
	all := map[string]float64{}
	for i := range groups {
		g := &groups[i]
		for _, p := range g.Points {
			v := p.Value
			if p.Durations != nil {
				v = float64(p.Durations.Count())
			}
			all[fmt.Sprint(g.Identity.PID, p.Name, p.Labels)] = v
		}
	}
	return all
}

func TestFleet(t *testing.T) {
	f := Fleet{Targets: 3}
	start := time.Unix(1_800_000_000, 0)
	groups := f.Groups(start)
	first := values(groups)
	second := values(f.Groups(start.Add(30 * time.Second)))
	if len(groups) != 4 || len(first) != len(second) {
		t.Fatalf("%d groups; %d series, then %d", len(groups), len(first), len(second))
	}
	seen := map[*metric.Desc]int{}
	grew := map[*metric.Desc]bool{}
	for i := range groups {
		for _, p := range groups[i].Points {
			seen[p.Desc]++
			k := fmt.Sprint(groups[i].Identity.PID, p.Name, p.Labels)
			if p.Kind != metric.Gauge && second[k] < first[k] {
				t.Errorf("%s: %v, then %v", k, first[k], second[k])
			}
			grew[p.Desc] = grew[p.Desc] || second[k] != first[k]
			checkLabels(t, &p)
			if (p.Kind == metric.Histogram) != (p.Durations != nil) || (p.Scope == metric.Agent) != (groups[i].Identity.PID == 0) {
				t.Errorf("%s in the group of process %d: %+v", p.Name, groups[i].Identity.PID, p)
			}
		}
	}
	for _, d := range metric.Table {
		if seen[d] == 0 && d != metric.SeriesDropped {
			t.Errorf("no point of %s", d.Name)
		}
		if d.Kind == metric.Histogram && !grew[d] {
			t.Errorf("%s does not change", d.Name)
		}
	}
}

// checkLabels checks that a point has the labels of its metric, and that their values are among those that the table lists.
func checkLabels(t *testing.T, p *metric.Point) {
	if len(p.Labels) != len(p.Desc.Labels) {
		t.Errorf("%s: labels %q, want %d", p.Name, p.Labels, len(p.Desc.Labels))
		return
	}
	for i, l := range p.Desc.Labels {
		if listed := strings.Count(l.Doc, "`") >= 4 && l.Name != "workload_kind"; listed && !strings.Contains(l.Doc, "`"+p.Labels[i]+"`") {
			t.Errorf("%s: label %s is %q, the table has %s", p.Name, l.Name, p.Labels[i], l.Doc)
		}
	}
}

func TestTrouble(t *testing.T) {
	rate := func(trouble bool, d *metric.Desc) float64 {
		f := Fleet{Targets: 2, Trouble: trouble}
		start := time.Unix(1_800_000_000, 0)
		sum := func(groups []metric.Group) (total float64) {
			for i := range groups {
				for _, p := range groups[i].Points {
					if p.Desc == d {
						total += p.Value
					}
				}
			}
			return total
		}
		return sum(f.Groups(start.Add(time.Minute))) - sum(f.Groups(start.Add(11*time.Minute)))
	}
	for _, d := range []*metric.Desc{metric.Goroutines, metric.EventsLost, metric.TargetLost, metric.AttachFailures, metric.LeakSuspects} {
		if healthy, ill := -rate(false, d), -rate(true, d); ill < healthy+100 {
			t.Errorf("%s grows by %v, in trouble by %v", d.Name, healthy, ill)
		}
	}
}
