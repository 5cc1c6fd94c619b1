package event

import (
	"fmt"
	"slices"
	"testing"
)

// TestKinds checks sets of kinds with kinds on both sides of each word boundary.
func TestKinds(t *testing.T) {
	kinds := []Kind{1, 2, 62, 63, 64, 65, 126, 127}
	all := KindsOf(kinds...)
	if got := all.List(); !slices.Equal(got, kinds) {
		t.Errorf("List() = %d, want %d", got, kinds)
	}
	for i := range KindLimit {
		k := Kind(i)
		if got, want := all.Has(k), slices.Contains(kinds, k); got != want {
			t.Errorf("Has(%d) = %v, want %v", i, got, want)
		}
		if i >= 128 {
			continue
		}
		if one := KindsOf(k); !one.Has(k) || !slices.Equal(one.List(), []Kind{k}) || one.Words()[i/64] != 1<<(i%64) {
			t.Errorf("the set of kind %d is %d", i, one.List())
		}
	}
	odd, rest := KindsOf(1, 63, 65, 127), KindsOf(2, 62, 64, 126)
	if odd.Union(rest) != all || all.Without(odd) != rest || all.Intersect(odd) != odd || !odd.Intersect(rest).IsEmpty() {
		t.Error("Union, Without and Intersect contradict each other")
	}
	if !all.Contains(odd) || odd.Contains(all) || !odd.Contains(Kinds{}) || all.IsEmpty() {
		t.Error("Contains or IsEmpty is wrong")
	}
	if got := KindsOf(GoBlock, ChanMake, 100).String(); got != "GoBlock,ChanMake,Kind(100)" {
		t.Errorf("String() = %q", got)
	}
}

// TestCommonKinds checks the sets that derive from the table.
func TestCommonKinds(t *testing.T) {
	for _, test := range []struct {
		set  Kinds
		want string
	}{
		{KindsGoroutine, "GoStatus,GoCreate,GoStart,GoStop,GoBlock,GoUnblock,GoDestroy"},
		{KindsSyscall, "GoSyscallBegin,GoSyscallEnd"},
		{KindsChannel, "ChanMake,ChanSend,ChanReceive,ChanClose,Select"},
		{KindsLock, "SemAcquire,SemRelease"},
		{KindsGC, "GCBegin,GCEnd,STWBegin,STWEnd,HeapAlloc,GCMarkAssistBegin,GCMarkAssistEnd"},
		{KindsMemory, "HeapGoal,AllocBytes,AllocObjects"},
		{KindsUser, "UserTaskBegin,UserTaskEnd,UserRegionBegin,UserRegionEnd,UserLog,CPUSample"},
	} {
		if got := test.set.String(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	var groups Kinds
	for _, g := range Groups() {
		groups = groups.Union(g.Kinds())
	}
	if want := KindsAll.Union(KindsMemory, KindsTrace).Without(KindsOf(GoSwitch)); groups != want {
		t.Errorf("the groups have %s, want %s", groups, want)
	}
	if !KindsAll.Contains(KindsOf(GoSwitch, Lost, Exec)) || !KindsAll.Intersect(KindsUser).IsEmpty() {
		t.Errorf("KindsAll is %s", KindsAll)
	}
}

// TestValid compares Valid with the table.
func TestValid(t *testing.T) {
	for i := range KindLimit {
		k := Kind(i)
		if got, want := k.Valid(), k.String() != fmt.Sprintf("Kind(%d)", i); got != want {
			t.Errorf("Valid() of %d = %v", i, got)
		}
	}
}
