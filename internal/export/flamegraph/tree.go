package flamegraph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
)

// maxNodes is the number of nodes of a tree after which further stacks are cut: about 15 MB of HTML.
const maxNodes = 1 << 20

// A tree is the stacks of one or two profiles, merged by their outermost frames. A node is its index in frame, parent and
// depth. Node 0 is the root. The nodes are in preorder: the children of a node follow it, and its whole subtree is contiguous.
type tree struct {
	frames []frame // distinct

	frame  []int32 // of each node: an index in frames
	parent []int32 // of each node
	depth  []int32 // of each node; 0 for the root

	rows   []row
	labels *labelSets
	types  int // number of sample types

	stacks int     // number of stacks
	cut    int     // number of stacks that were cut because the tree was full
	cutMax float64 // the largest share of a stack that was cut, of the total of any sample type
	cutSum float64 // the share of all stacks that were cut, of the total of the sample type in which it is largest
}

// A row is the values of the samples that have the same node and the same labels.
type row struct {
	node, labels int32
	values, old  []int64 // by sample type; old is nil without a base
}

// A stack is a sample of one of the profiles.
type stack struct {
	sample *profile.Sample
	old    bool
	share  float64 // the largest share of a sample type's total
}

// newTree merges the stacks of a profile, and of an older one unless it is nil. The values must not be negative. The tree has
// room for limit nodes in addition to those that show where stacks were cut.
func newTree(p, old *profile.Profile, limit int) (*tree, error) {
	m := &merger{
		tree: &tree{types: len(p.SampleType)}, limit: limit, diff: old != nil,
		table: newFrameTable(), nodes: map[edge]int32{}, rows: map[rowKey]int32{}, totals: make([]float64, len(p.SampleType)),
		cut: make([]float64, len(p.SampleType)),
	}
	stacks, err := m.appendStacks(nil, p, false)
	if err == nil && old != nil {
		stacks, err = m.appendStacks(stacks, old, true)
	}
	if err != nil {
		return nil, err
	}
	// The largest first: if the tree becomes full, the smallest are cut.
	slices.SortStableFunc(stacks, func(a, b stack) int { return cmp.Compare(b.share, a.share) })
	m.tree.labels = newLabelSets(stacks)
	m.node(-1, m.table.id(frame{name: rootName}))
	for i := range stacks {
		if err := m.add(&stacks[i]); err != nil {
			return nil, err
		}
	}
	for i, v := range m.cut {
		if v > 0 {
			m.tree.cutSum = max(m.tree.cutSum, v/m.totals[i])
		}
	}
	m.tree.frames = m.table.frames
	m.tree.sort(defaultType(p))
	return m.tree, nil
}

// defaultType returns the index of the sample type that viewers show first.
func defaultType(p *profile.Profile) int {
	for i, t := range p.SampleType {
		if t.Type == p.DefaultSampleType {
			return i
		}
	}
	return len(p.SampleType) - 1
}

// merger makes a tree.
type merger struct {
	*tree
	limit int
	diff  bool

	table  *frameTable
	nodes  map[edge]int32
	rows   map[rowKey]int32
	totals []float64 // by sample type, of both profiles
	cut    []float64 // by sample type: values of the stacks that were cut
}

// An edge identifies a node by its parent and its frame.
type edge struct{ parent, frame int32 }

type rowKey struct{ node, labels int32 }

// appendStacks appends the samples of a profile that have values.
func (m *merger) appendStacks(list []stack, p *profile.Profile, old bool) ([]stack, error) {
	totals := make([]float64, m.types)
	for _, s := range p.Sample {
		if len(s.Value) != m.types {
			return nil, fmt.Errorf("a sample has %s instead of %d", english.Count(len(s.Value), "value"), m.types)
		}
		for i, v := range s.Value {
			if v < 0 {
				return nil, errors.New("a flame graph cannot show negative values: the profile is a difference")
			}
			totals[i] += float64(v)
		}
	}
	for i, v := range totals {
		m.totals[i] += v
	}
	for _, s := range p.Sample {
		st := stack{sample: s, old: old}
		for i, v := range s.Value {
			if v > 0 {
				st.share = max(st.share, float64(v)/totals[i])
			}
		}
		if st.share > 0 {
			list = append(list, st)
		}
	}
	return list, nil
}

// add adds a stack to the tree.
func (m *merger) add(s *stack) error {
	m.stacks++
	at := int32(0)
	for _, id := range m.table.of(s.sample) {
		next, ok := m.nodes[edge{at, id}]
		if !ok && len(m.tree.frame) >= m.limit {
			at = m.node(at, m.table.id(frame{name: prunedName}))
			m.tree.cut++
			m.cutMax = max(m.cutMax, s.share)
			for i, v := range s.sample.Value {
				m.cut[i] += float64(v)
			}
			break
		}
		if !ok {
			next = m.node(at, id)
		}
		at = next
	}
	return m.row(rowKey{at, m.labels.of(s.sample)}, s)
}

// node returns the child of a node with a frame.
func (m *merger) node(parent, frame int32) int32 {
	key := edge{parent, frame}
	id, ok := m.nodes[key]
	if !ok {
		id = int32(len(m.tree.frame))
		m.nodes[key] = id
		m.tree.frame = append(m.tree.frame, frame)
		m.tree.parent = append(m.tree.parent, parent)
	}
	return id
}

// row adds the values of a stack.
func (m *merger) row(key rowKey, s *stack) error {
	id, ok := m.rows[key]
	if !ok {
		id = int32(len(m.tree.rows))
		m.rows[key] = id
		r := row{node: key.node, labels: key.labels, values: make([]int64, m.types)}
		if m.diff {
			r.old = make([]int64, m.types)
		}
		m.tree.rows = append(m.tree.rows, r)
	}
	sums := m.tree.rows[id].values
	if s.old {
		sums = m.tree.rows[id].old
	}
	for i, v := range s.sample.Value {
		if v > math.MaxInt64-sums[i] {
			return errors.New("the values of the profile are too large: a sum exceeds 64 bits")
		}
		sums[i] += v
	}
	return nil
}

// sort brings the nodes into preorder. Of the children of a node, the one with the largest value of a sample type is the first.
func (t *tree) sort(sampleType int) {
	weight := make([]float64, len(t.frame))
	for _, r := range t.rows {
		weight[r.node] += float64(r.values[sampleType])
		if r.old != nil {
			weight[r.node] += float64(r.old[sampleType])
		}
	}
	for i := len(weight) - 1; i > 0; i-- { // at this time the children of a node are behind it
		weight[t.parent[i]] += weight[i]
	}
	order := make([]int32, len(t.frame)) // by parent
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		fa, fb := &t.frames[t.frame[a]], &t.frames[t.frame[b]]
		return cmp.Or(cmp.Compare(t.parent[a], t.parent[b]), cmp.Compare(weight[b], weight[a]), cmp.Compare(fa.name, fb.name),
			cmp.Compare(fa.file, fb.file), cmp.Compare(a, b))
	})
	children := make([]int32, len(t.frame)+1) // where the children of a node begin in order; those of the last one end at its end
	for i, n := len(order)-1, len(t.frame); n >= 0; n-- {
		for i >= 0 && int(t.parent[order[i]]) >= n {
			i--
		}
		children[n] = int32(i + 1)
	}
	t.renumber(order, children)
}

// renumber numbers the nodes in preorder.
func (t *tree) renumber(order, children []int32) {
	number := make([]int32, len(t.frame)) // new, by old
	frames, parents, depths := make([]int32, 0, len(t.frame)), make([]int32, 0, len(t.frame)), make([]int32, 0, len(t.frame))
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		number[n] = int32(len(frames))
		parent, depth := int32(-1), int32(0)
		if t.parent[n] >= 0 {
			parent = number[t.parent[n]]
			depth = depths[parent] + 1
		}
		frames, parents, depths = append(frames, t.frame[n]), append(parents, parent), append(depths, depth)
		list := order[children[n]:children[n+1]]
		for _, child := range slices.Backward(list) {
			todo = append(todo, child)
		}
	}
	t.frame, t.parent, t.depth = frames, parents, depths
	for i := range t.rows {
		t.rows[i].node = number[t.rows[i].node]
	}
	slices.SortFunc(t.rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.labels, b.labels)) })
}
