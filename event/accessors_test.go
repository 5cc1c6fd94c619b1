package event

import (
	"slices"
	"testing"
)

// TestAccessors compares the methods with the table: for a kind with a field they return it, for others zero.
func TestAccessors(t *testing.T) {
	for k := Kind(1); k < numKinds; k++ {
		e := Event{Kind: k, Value: 7, Object: 9, Reason: "why"}
		numbers := map[string]int64{"Wait": int64(e.Wait()), "SyscallTime": int64(e.SyscallTime()), "Capacity": e.Capacity(),
			"Cases": e.Cases(), "HeapBytes": e.HeapBytes(), "HeapGoalBytes": e.HeapGoalBytes(),
			"AllocatedBytes": e.AllocatedBytes(), "AllocatedObjects": e.AllocatedObjects(), "Missing": e.Missing(), "Sampled": e.Sampled(), "Task": e.Task()}
		expectOne(t, k, "Value", numbers, 7)
		expectOne(t, k, "Reason", map[string]string{"WaitReason": e.WaitReason(), "StopReason": e.StopReason(),
			"STWReason": e.STWReason(), "Category": e.Category()}, "why")
		if f, ok := k.Describe().Field("Object"); ok {
			expectOne(t, k, "Object", map[string]uint64{"Address": e.Address(), "ParentTask": e.ParentTask()}, 9)
			if isID := e.ParentTask() != 0; isID != (f.Unit == ID) {
				t.Errorf("%v: Object has the unit %q", k, f.Unit)
			}
		}
	}
}

// expectOne checks that exactly one of some methods returns a field if the kind has it, and none if it has not.
func expectOne[T comparable](t *testing.T, k Kind, field string, got map[string]T, want T) {
	t.Helper()
	var zero T
	var methods []string
	for name, value := range got {
		switch value {
		case want:
			methods = append(methods, name)
		case zero:
		default:
			t.Errorf("%v: %s() = %v", k, name, value)
		}
	}
	slices.Sort(methods)
	count := 0
	if _, ok := k.Describe().Field(field); ok {
		count = 1
	}
	if len(methods) != count {
		t.Errorf("%v: %s is returned by %v, want %d methods", k, field, methods, count)
	}
}
