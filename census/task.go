package census

import (
	"regexp"
	"slices"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/place"
)

// mainStarter is the runtime's function that the main goroutine starts with; it calls main.main.
const mainStarter = "runtime.main"

// spawners are functions that hold a go statement on behalf of others: that a goroutine was created by one of them says
// nothing of what it is for.
var spawners = []string{
	"sync.(*WaitGroup).Go",
	"context.(*afterFuncCtx)",
	"golang.org/x/sync/errgroup.(*Group)",
	"github.com/sourcegraph/conc",
	"github.com/oklog/run.(*Group)",
}

func isSpawner(function string) bool {
	return function == mainStarter || slices.ContainsFunc(spawners, func(s string) bool { return strings.HasPrefix(function, s) })
}

// taskOf returns the function that a goroutine is there for: the one it was started with, unless that belongs to a
// spawner; then the outermost function that the spawner calls.
func taskOf(createdBy, start event.Frame, stack []event.StackFrame) event.Frame {
	if !isSpawner(createdBy.Func) && !isSpawner(start.Func) {
		return start
	}
	for i := len(stack) - 1; i >= 0; i-- {
		if f := &stack[i]; f.Func != "runtime.goexit" && !isSpawner(f.Func) {
			return f.Frame
		}
	}
	return start
}

// closurePattern matches what the compiler adds to a function's name to name a function literal in it.
var closurePattern = regexp.MustCompile(`\.(?:func\d+|gowrap\d+)(?:\.\d+|\.func\d+|\.gowrap\d+)*$`)

// Name returns the name of the function that describes what the population does. It is that of Task, unless Task is a
// function literal that only calls another function of the program: then it is the name of that function.
func (p *Population) Name() string {
	if !closurePattern.MatchString(p.Task.Func) {
		return p.Task.Func
	}
	name := ""
	for _, c := range p.Crowds {
		callee := c.calledBy(p.Task.Func)
		if callee == "" || name != "" && callee != name {
			return p.Task.Func
		}
		name = callee
	}
	return name
}

// calledBy returns the first function with a name of its own, of the same package, that a function of the crowd's stack
// leads to; empty when there is none.
func (c *Crowd) calledBy(function string) string {
	i := len(c.Stack) - 1
	for i >= 0 && c.Stack[i].Func != function {
		i--
	}
	for i--; i >= 0; i-- {
		if f := c.Stack[i].Func; place.Package(f) == place.Package(function) && !closurePattern.MatchString(f) {
			return f
		}
	}
	return ""
}
