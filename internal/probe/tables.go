package probe

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/loupe-go/loupe/internal/english"
	"github.com/loupe-go/loupe/internal/probe/csrc"
)

// Cells is the contents of a table of a set.
type Cells struct {
	Keys map[uint64]Cell
	// Overflow is the number of hits whose key had no room in the table.
	Overflow uint64

	kept int // Table.Kept
}

// NewCells returns the contents of an empty table with Table.Kept.
func NewCells(kept int) Cells { return Cells{Keys: map[uint64]Cell{}, kept: kept} }

// A Cell is the entry of a table for one key.
type Cell struct {
	Counted uint64
	Values  []uint64
}

// Add adds the counts of one processor or lane for a key.
func (c *Cells) Add(key, counted uint64, values []uint64) {
	cell, ok := c.Keys[key]
	if !ok {
		cell.Values = make([]uint64, len(values))
	}
	cell.Counted += counted
	for i, v := range values {
		if i < len(values)-c.kept {
			cell.Values[i] += v
		} else {
			cell.Values[i] = max(cell.Values[i], v)
		}
	}
	c.Keys[key] = cell
}

const (
	maxKeys     = 1 << 20 // of one table
	maxValues   = 16      // of a key
	tableHeader = 8       // bytes: struct loupe_table in loupe.h
	cacheLine   = 64      // bytes; each table begins at a multiple, so that the first words of a cell of 64 bytes are in one line
)

// setTables places the tables of a set after those of the previous sets.
func (pl *planner) setTables() error {
	for _, t := range pl.set.Set.Tables {
		n := slices.Index(pl.set.Code.Tables, t.Name)
		if n < 0 {
			return fmt.Errorf("%s: the C source has no table %s", pl.set.Name, t.Name)
		}
		if t.Keys < 1 || t.Keys > maxKeys || t.Values < 1 || t.Values > maxValues || t.Kept < 0 || t.Kept > t.Values {
			return fmt.Errorf("%s: table %s has room for %s with %s, want at most %d and %d", pl.set.Name, t.Name,
				english.Count(t.Keys, "key"), english.Count(t.Values, "value"), maxKeys, maxValues)
		}
		cells := max(csrc.TableWindow, 1<<bits.Len(uint(2*t.Keys-1))) // if it is half full, there is room for nearly every key
		pl.set.Tables[n] = csrc.Table{Offset: uint32(pl.plan.TableBytes), Mask: uint32(cells - 1), Values: uint32(t.Values)}
		pl.plan.TableBytes += (tableHeader + cells*8*(2+t.Values) + cacheLine - 1) / cacheLine * cacheLine
	}
	for i, t := range pl.set.Tables {
		if t.Mask == 0 {
			return fmt.Errorf("%s: table %s is not declared", pl.set.Name, pl.set.Code.Tables[i])
		}
	}
	if pl.plan.TableBytes > csrc.MaxTables {
		return fmt.Errorf("the tables with those of %s have %d bytes for each processor, more than %d", pl.set.Name, pl.plan.TableBytes, csrc.MaxTables)
	}
	return nil
}

// Table returns the current contents of a table of a set in Want.Sets.
func (s *Session) Table(set *Set, name string) (Cells, error) {
	i, n := slices.Index(s.plan.Want.Sets, set)+1, slices.Index(set.Code.Tables, name)
	if i < 1 || n < 0 {
		return Cells{}, fmt.Errorf("process %d: the session has no table %s of %s", s.PID(), name, set.Name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		c := s.tables[tableID{i, n}]
		return c.cells, c.err
	}
	return s.engine.Table(i, n)
}

// tableID identifies a table of a set by their numbers in the plan.
type tableID struct{ set, table int }

// finalTable is the contents of a table at the end.
type finalTable struct {
	cells Cells
	err   error
}

// readTables saves the contents of the tables. The caller holds the lock.
func (s *Session) readTables() {
	if s.plan == nil {
		return
	}
	s.tables = map[tableID]finalTable{}
	for i := range s.plan.Sets {
		for n := range s.plan.Sets[i].Tables {
			cells, err := s.engine.Table(i, n)
			s.tables[tableID{i, n}] = finalTable{cells, err}
		}
	}
}
