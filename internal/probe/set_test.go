package probe

import (
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/probe/probetest"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// code is the C half of a set that has a probe of the runtime's set, and settings.
func code() *csrc.Code {
	c := csrc.Runtime
	c.Settings = []string{"first", "second"}
	c.Tables = []string{"counts"}
	return &c
}

// planned returns the plan of a stripped program with a set.
func planned(t *testing.T, set *Set) (*Plan, []event.Warning, error) {
	t.Helper()
	exe := probetest.Open(t, testtarget.Spec{Program: "tiny", Stripped: true})
	return NewPlan(exe, Want{Kinds: event.KindsOf(event.GoStart), Sets: []*Set{set}})
}

func declared(change func(*Declaration)) Declaration {
	d := Declaration{Program: "goexit0", Funcs: []string{"runtime.goexit0"}, Words: 1, Without: "exits are missing"}
	if change != nil {
		change(&d)
	}
	return d
}

// TestPlanSet plans a set: where its settings come from, and which of its probes apply.
func TestPlanSet(t *testing.T) {
	table := Table{Name: "counts", Values: 1, Keys: 100}
	goid := Setting{Name: "first", Fields: []string{"none.g.goid", "runtime.g.goid"}}
	std := Setting{Name: "second", Fields: []string{"net/http.Request.Method"}, Offsets: []Offset{
		{Module: Module{Path: "example.com/none"}, Offset: 1}, {Module: Module{Path: Std, Until: "v1.22.0"}, Offset: 2},
		{Module: Module{Path: Std, Since: "v1.22.0"}, Offset: 3}}}
	needs := func(d *Declaration) { d.Settings = []string{"second"} }
	for _, c := range []struct {
		name    string
		set     Set
		probes  int // besides that of the runtime's set
		warning string
		err     string
	}{
		{"one probe", Set{Tables: []Table{table}, Probes: []Declaration{declared(nil)}, Settings: []Setting{goid, std}}, 1, "", ""},
		{"required", Set{Tables: []Table{table}, Probes: []Declaration{declared(needs)}, Settings: []Setting{goid, std}}, 1, "", ""},
		{"unknown", Set{Tables: []Table{table}, Probes: []Declaration{declared(needs)}, Settings: []Setting{{Name: "second", Fields: []string{"a.B.c"}}}},
			0, "exits are missing: the offset of a.B.c is unknown in this executable", ""},
		{"module not there", Set{Tables: []Table{table}, Probes: []Declaration{declared(func(d *Declaration) { d.Modules = []Module{{Path: "example.com/none"}} })}},
			0, "exits are missing: the executable does not contain the version of example.com/none", ""},
		{"library not there", Set{Tables: []Table{table}, Probes: []Declaration{declared(func(d *Declaration) {
			d.Modules, d.Funcs = []Module{{Path: "example.com/none"}}, []string{"example.com/none.F"}
		})}}, 0, "", ""},
		{"release", Set{Tables: []Table{table}, Probes: []Declaration{declared(func(d *Declaration) { d.Modules = []Module{{Path: Std, Until: "v1.5.0"}} })}}, 0, "", ""},
		{"twice", Set{Tables: []Table{table}, Probes: []Declaration{declared(nil), declared(nil)}}, 0, "", "two declarations of probe goexit0"},
		{"no such probe", Set{Tables: []Table{table}, Probes: []Declaration{declared(func(d *Declaration) { d.Program = "none" })}}, 0, "", "has no probe none"},
		{"no such setting", Set{Tables: []Table{table}, Settings: []Setting{{Name: "none"}}}, 0, "", "has no setting none"},
		{"no such table", Set{Tables: []Table{{Name: "none"}}}, 0, "", "has no table none"},
		{"table not declared", Set{}, 0, "", "table counts is not declared"},
		{"huge table", Set{Tables: []Table{{Name: "counts", Values: 1, Keys: 1 << 30}}}, 0, "", "has room for 1,073,741,824 keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.set.Name, c.set.Code = "a set", code()
			plan, warnings, err := planned(t, &c.set)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(event.WarningTexts(warnings), ";"); got != c.warning || len(plan.Probes) != 1+c.probes {
				t.Errorf("%d probes, warnings %q; want %d, %q", len(plan.Probes), got, 1+c.probes, c.warning)
			}
			if c.probes == 0 {
				return
			}
			set := &plan.Sets[1]
			offset, err := plan.bin.Layout().Offset("runtime.g.goid")
			if err != nil || set.Settings[0] != offset || set.Settings[1] != 3 || set.Kind != csrc.KindSet {
				t.Errorf("settings %v, kind %d, want %d and 3, %d (%v)", set.Settings, set.Kind, offset, csrc.KindSet, err)
			}
			p := &plan.Probes[1]
			if p.Set != 1 || plan.Number(p) != len(csrc.Runtime.Probes)+int(p.ID) || set.Sites[p.ID] != p.Sites[0].Settings() || !p.Fence {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestSettingOfLibrary finds the offset of a field in package library, which knows the release of a program.
func TestSettingOfLibrary(t *testing.T) {
	set := &Set{Name: "test", Code: code(), Tables: []Table{{Name: "counts", Values: 1, Keys: 100}}, Settings: []Setting{
		{Name: "first", Fields: []string{"net/http.Request.URL"}},
		{Name: "second", Fields: []string{"net/http.Request.URL"}, Plus: func(Program) uint64 { return 4 }}}}
	plan, _, err := planned(t, set)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Sets[1].Settings; got[0] != 16 || got[1] != 20 { // after the string Method
		t.Errorf("settings %v, want 16 and 20", got)
	}
}
