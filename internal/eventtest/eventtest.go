// Package eventtest makes events for tests, from the table of kinds in package event. A test that passes All through a
// consumer covers a kind as soon as the table has it.
package eventtest

import (
	"fmt"
	"reflect"

	"github.com/loupe-go/loupe/event"
)

// All returns the kinds that streams contain.
func All() event.Kinds {
	return event.KindsAll.Union(event.KindsMemory, event.KindsTrace).Without(event.KindsOf(event.GoSwitch))
}

// G is the goroutine of the events that Filled returns.
const G = 7

// Time is their time.
const Time = int64(1_700_000_000_000_000_000)

// Filled returns an event of a kind in which each field that the table describes has a value. Equal kinds get equal values,
// and the kinds of a task and a region get the same one.
func Filled(k event.Kind) event.Event {
	e := event.Event{Time: Time, Kind: k, PID: 4711, TID: 4712, P: event.ProcOf(0)}
	v := reflect.ValueOf(&e).Elem()
	for i, f := range k.Describe().Fields {
		switch field := v.FieldByName(f.Name); f.Name {
		case "G":
			e.G = G
		case "Parent", "By":
			field.SetUint(1)
		case "State":
			e.State = event.StateWaiting
			if k == event.GoSyscallEnd {
				e.State = event.StateRunnable
			}
		case "Origin":
			e.Origin = &event.Origin{CreatedBy: event.Frame{Func: "main.main", File: "/src/main.go", Line: 3},
				Start: event.Frame{Func: "main.work", File: "/src/main.go", Line: 9}}
		case "Stack":
			e.Stack = &event.Stack{Frames: []event.Frame{{Func: "main.work", File: "/src/main.go", Line: 12}}}
		default:
			fill(field, f, 100+i)
		}
	}
	return e
}

// fill sets a field to a value that its unit permits.
func fill(field reflect.Value, f event.Field, n int) {
	switch {
	case field.Kind() == reflect.String:
		field.SetString("the " + f.Name)
	case f.Unit == event.ID:
		n = 5
		if f.Name == "Object" {
			n = 4
		}
		fallthrough
	case field.Kind() == reflect.Int64 || field.Kind() == reflect.Uint64:
		field.Set(reflect.ValueOf(n).Convert(field.Type()))
	default:
		panic(fmt.Sprintf("no value for the field %s of type %s", f.Name, field.Type()))
	}
}

// opens are the kinds that an event of another kind ends.
var opens = map[event.Kind]event.Kind{event.GCEnd: event.GCBegin, event.STWEnd: event.STWBegin, event.GCMarkAssistEnd: event.GCMarkAssistBegin,
	event.UserTaskEnd: event.UserTaskBegin, event.UserRegionEnd: event.UserRegionBegin}

// Before returns the events that an event of a kind follows in a stream: a goroutine 1 and the goroutine G that run, and what
// the event ends. They are a millisecond apart.
func Before(k event.Kind) []event.Event {
	list := []event.Event{
		{Kind: event.GoStatus, G: 1, State: event.StateRunning, TID: 4711},
		{Kind: event.GoStatus, G: G, State: event.StateRunning, TID: 4712},
	}
	switch k {
	case event.GoStatus, event.GoCreate:
		list = list[:1]
	case event.GoStart:
		list[1].State = event.StateRunnable
	case event.GoUnblock:
		list[1].State = event.StateWaiting
	case event.GoSyscallEnd:
		list[1].State = event.StateSyscall
	}
	if open, ok := opens[k]; ok {
		list = append(list, Filled(open))
	}
	for i := range list {
		list[i].PID = 4711
		list[i].Time = Time - int64(len(list)-i)*1e6
	}
	return list
}

// After returns an event that follows.
func After() event.Event {
	return event.Event{Kind: event.HeapAlloc, Time: Time + 1e6, PID: 4711, TID: 4711, Value: 1 << 20}
}
