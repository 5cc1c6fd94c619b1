// Command user makes tasks, regions and logs with package runtime/trace, and compares the events of an agent with them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/trace"

	"github.com/loupe-go/loupe/glti"
)

const (
	taskCreate = 45
	taskEnd    = 46
	region     = 47
	userLog    = 48
)

var events []string

// annotate uses every function of the package that annotates. The tasks have the numbers first and first+1.
func annotate() {
	ctx, task := trace.NewTask(context.Background(), "outer")
	inner, innerTask := trace.NewTask(ctx, "inner")
	trace.WithRegion(inner, "with", func() { trace.Log(inner, "key", "value") })
	r := trace.StartRegion(ctx, "start")
	trace.Logf(ctx, "format", "%d", 7)
	r.End()
	trace.WithRegion(context.Background(), "background", func() {})
	innerTask.End()
	task.End()
	if trace.IsEnabled() {
		trace.Log(ctx, "only", "if traced")
	}
}

// expected returns the events of annotate.
func expected(self, first uint64, traced bool) []string {
	list := []string{
		event(taskCreate, self, first, 0, "outer", ""),
		event(taskCreate, self, first+1, first, "inner", ""),
		event(region, self, first+1, 0, "with", ""),
		event(userLog, self, first+1, 0, "key", "value"),
		event(region, self, first+1, 1, "with", ""),
		event(region, self, first, 0, "start", ""),
		event(userLog, self, first, 0, "format", "7"),
		event(region, self, first, 1, "start", ""),
		event(region, self, 0, 0, "background", ""),
		event(region, self, 0, 1, "background", ""),
		event(taskEnd, self, first+1, 0, "", ""),
		event(taskEnd, self, first, 0, "", ""),
	}
	if traced {
		list = append(list, event(userLog, self, first, 0, "only", "if traced"))
	}
	return list
}

func event(kind uint8, goid, id, arg uint64, text0, text1 string) string {
	return fmt.Sprintf("event %d of goroutine %d: %d %d %q %q", kind, goid, id, arg, text0, text1)
}

var failed bool

func compare(phase string, want []string) {
	if fmt.Sprint(events) != fmt.Sprint(want) {
		fmt.Printf("%s:\n", phase)
		for i := 0; i < len(events) || i < len(want); i++ {
			var e, w string
			if i < len(events) {
				e = events[i]
			}
			if i < len(want) {
				w = want[i]
			}
			if e != w {
				fmt.Printf("%s\n  expected %s\n", e, w)
			}
		}
		failed = true
	}
	events = nil
}

func main() {
	var last int64
	glti.Annotated(func(a glti.Annotation) {
		if a.Time < last {
			fmt.Println("times do not increase")
			failed = true
		}
		last = a.Time
		events = append(events, event(a.Event, a.Goid, a.Args[0], a.Args[1], a.Text[0], a.Text[1]))
		trace.Log(context.Background(), "in", "callback") // is not delivered
	})
	_, self := glti.Self()
	annotate()
	compare("nobody", nil) // the tasks 1 and 2
	glti.Enable(taskCreate, taskEnd, region, userLog)
	annotate()
	compare("agent", expected(self, 3, false))
	var out bytes.Buffer
	if err := trace.Start(&out); err != nil {
		fmt.Println(err)
		failed = true
	}
	annotate()
	compare("agent and trace", expected(self, 5, true))
	trace.Stop()
	for _, text := range []string{"outer", "inner", "start", "if traced"} {
		if !bytes.Contains(out.Bytes(), []byte(text)) {
			fmt.Printf("the trace does not contain %q\n", text)
			failed = true
		}
	}
	glti.Enable(taskCreate)
	annotate()
	compare("tasks", []string{event(taskCreate, self, 7, 0, "outer", ""), event(taskCreate, self, 8, 7, "inner", "")})
	glti.Enable()
	annotate()
	compare("nobody any more", nil)
	if lost := glti.Lost(); lost != 0 {
		fmt.Println(lost, "events are lost")
		failed = true
	}
	if failed {
		os.Exit(1)
	}
	fmt.Println("ok")
}
