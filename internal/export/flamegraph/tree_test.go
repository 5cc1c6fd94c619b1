package flamegraph

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// builder makes profiles for tests.
type builder struct {
	p         *profile.Profile
	functions map[string]*profile.Function
	locations map[string]*profile.Location // by functions, without inlined ones
}

// newProfile starts a profile with sample types like "time/nanoseconds"; the first one is the default.
func newProfile(types ...string) *builder {
	b := &builder{p: &profile.Profile{TimeNanos: time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC).UnixNano(), DurationNanos: 10e9}, functions: map[string]*profile.Function{}, locations: map[string]*profile.Location{}}
	for _, t := range types {
		name, unit, _ := strings.Cut(t, "/")
		b.p.SampleType = append(b.p.SampleType, &profile.ValueType{Type: name, Unit: unit})
	}
	b.p.DefaultSampleType = b.p.SampleType[0].Type
	return b
}

// add adds a sample: functions from the outermost to the innermost. "<f" is inlined into the function before.
func (b *builder) add(stack []string, values ...int64) *profile.Sample {
	s := &profile.Sample{Value: values}
	for _, name := range slices.Backward(stack) {
		name, inlined := strings.CutPrefix(name, "<")
		fn := b.functions[name]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, Filename: "/src/" + name + ".go"}
			b.functions[name] = fn
			b.p.Function = append(b.p.Function, fn)
		}
		line := profile.Line{Function: fn, Line: 7}
		if n := len(s.Location); n > 0 && s.Location[n-1].IsFolded { // the callee was inlined
			s.Location[n-1].Line = append(s.Location[n-1].Line, line)
			s.Location[n-1].IsFolded = inlined
			continue
		}
		if l := b.locations[name]; l != nil && !inlined {
			s.Location = append(s.Location, l)
			continue
		}
		l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Address: uint64(len(b.p.Location)), Line: []profile.Line{line}, IsFolded: inlined}
		b.p.Location = append(b.p.Location, l)
		if !inlined {
			b.locations[name] = l
		}
		s.Location = append(s.Location, l)
	}
	b.p.Sample = append(b.p.Sample, s)
	return s
}

func mustTree(t *testing.T, p, old *profile.Profile, limit int) *tree {
	t.Helper()
	tree, err := newTree(p, old, limit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tree.frame { // preorder
		parent := tree.parent[i]
		if i == 0 && parent != -1 || i > 0 && (parent < 0 || int(parent) >= i || tree.depth[i] != tree.depth[parent]+1 || tree.depth[i] > tree.depth[i-1]+1) {
			t.Fatalf("node %d has parent %d and depth %d", i, parent, tree.depth[i])
		}
	}
	return tree
}

// outline returns the tree as text: a line for each node with its values.
func outline(t *tree) string {
	var b strings.Builder
	for i := range t.frame {
		f := t.frames[t.frame[i]]
		b.WriteString(strings.Repeat(" ", int(t.depth[i])) + f.name)
		if f.inlined {
			b.WriteString("*")
		}
		for _, r := range t.rows {
			if int(r.node) != i {
				continue
			}
			fmt.Fprintf(&b, " %d", r.values)
			if r.old != nil {
				fmt.Fprintf(&b, "<-%d", r.old)
			}
			if set := t.labels.sets[r.labels]; len(set) > 0 {
				fmt.Fprintf(&b, " %v", set)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestTree(t *testing.T) {
	b := newProfile("goroutine/count", "wait/nanoseconds")
	b.add([]string{"main.main", "main.small"}, 1, 0)
	b.add([]string{"main.main", "main.big", "<main.inner"}, 5, 50)
	b.add([]string{"main.main", "main.big", "main.inner"}, 2, 0)
	b.add([]string{"main.main"}, 1, 7)
	b.add([]string{"main.main", "main.big", "<main.inner"}, 1, 1).Label = map[string][]string{"tenant": {"acme"}}
	b.add([]string{"main.main", "main.zero"}, 0, 0)
	b.add(nil, 3, 0).NumLabel = map[string][]int64{"bytes": {64}}
	want := `all [3 0] [{bytes 64}]
 main.main [1 7]
  main.big
   main.inner* [5 50] [1 1] [{tenant acme}]
   main.inner [2 0]
  main.small [1 0]
`
	if got := outline(mustTree(t, b.p, nil, maxNodes)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTreeOfDifference(t *testing.T) {
	now, old := newProfile("n/count"), newProfile("n/count")
	now.add([]string{"main", "grew"}, 8)
	now.add([]string{"main", "new"}, 1)
	old.add([]string{"main", "grew"}, 3)
	old.add([]string{"main", "vanished", "leaf"}, 20)
	want := `all
 main
  vanished
   leaf [0]<-[20]
  grew [8]<-[3]
  new [1]<-[0]
`
	if got := outline(mustTree(t, now.p, old.p, maxNodes)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestTreeLimit holds that a full tree has all values, and that the smallest stacks are cut.
func TestTreeLimit(t *testing.T) {
	b := newProfile("n/count")
	total := int64(0)
	for i := range 1000 {
		b.add([]string{"main", fmt.Sprintf("f%d", i%10), fmt.Sprintf("g%d", i), "leaf"}, int64(i))
		total += int64(i)
	}
	tree := mustTree(t, b.p, nil, 600)
	sum, kept, pruned := int64(0), 0, int64(0)
	for _, r := range tree.rows {
		sum += r.values[0]
		if name := tree.frames[tree.frame[r.node]].name; name == prunedName {
			pruned += r.values[0]
		} else if name == "leaf" {
			kept++
		}
	}
	if sum != total || tree.stacks != 999 || tree.cut+kept != 999 || kept < 250 || len(tree.frame) > 2*600 {
		t.Errorf("sum %d of %d; %d stacks, %d cut, %d kept, %d nodes", sum, total, tree.stacks, tree.cut, kept, len(tree.frame))
	}
	if share := float64(pruned) / float64(total); math.Abs(tree.cutSum-share) > 1e-9 || tree.cutMax > float64(1000-kept)/float64(total) || tree.cutMax == 0 {
		t.Errorf("a share of %g was cut; the tree reports %g, at most %g each", share, tree.cutSum, tree.cutMax)
	}
	var page strings.Builder
	if err := Write(&page, b.p, Options{}); err != nil || strings.Contains(page.String(), prunedName) {
		t.Errorf("a small profile is pruned: %v", err)
	}
}

func TestTreeDeepStack(t *testing.T) {
	b := newProfile("n/count")
	stack := make([]string, 50_000)
	for i := range stack {
		stack[i] = fmt.Sprintf("f%d", i)
	}
	b.add(stack, 1)
	tree := mustTree(t, b.p, nil, maxNodes)
	name := func(i int) string { return tree.frames[tree.frame[i]].name }
	if n := len(tree.frame); n != 1+maxOuter+1+maxInner || name(1) != "f0" || name(maxOuter) != "f999" || name(maxOuter+1) != omittedName || name(maxOuter+2) != "f49000" || name(n-1) != "f49999" {
		t.Errorf("%d nodes", n)
	}
}

func TestTreeErrors(t *testing.T) {
	for want, values := range map[string][][]int64{
		"negative values": {{1}, {-1}},
		"exceeds 64 bits": {{math.MaxInt64}, {1}},
		"2 values":        {{1, 2}},
	} {
		b := newProfile("n/count")
		for _, v := range values {
			b.add([]string{"f"}, v...)
		}
		if _, err := newTree(b.p, nil, maxNodes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", values, err)
		}
		if err := WriteFolded(&strings.Builder{}, b.p, nil); want != "2 values" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("folded, %d: %v", values, err)
		}
	}
}

func TestLabels(t *testing.T) {
	b := newProfile("n/count")
	for i := range maxLabelValues + 2 {
		s := b.add([]string{"f"}, 1)
		s.Label = map[string][]string{"request": {fmt.Sprint(i)}, "tenant": {"a", "b"}, "pprof::base": {"true"}}
		for k := range i % 14 {
			s.Label[fmt.Sprintf("k%02d", k)] = []string{"v"}
		}
	}
	tree := mustTree(t, b.p, nil, maxNodes)
	if l := tree.labels; len(l.keys) != maxLabelKeys || l.keys[0] != "tenant" || l.keys[1] != "k00" || len(l.omitted) != 2 ||
		l.omitted[0] != "2 of 14 label keys are omitted: those of the fewest samples" || l.omitted[1] != "label request is omitted: it has more than 5000 values" {
		t.Errorf("keys %q, %q", l.keys, l.omitted)
	}
	if n := len(tree.labels.sets); n > 14 {
		t.Errorf("%d sets of labels", n)
	}
}
