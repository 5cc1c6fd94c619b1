// Command counts runs the script without package glti, and panics.
package main

import (
	"fmt"
	"runtime/debug"

	"agents/script"
)

func main() {
	debug.SetGCPercent(-1) // also while events are compared: the sweeper yields thousands of times
	all := script.Run()
	agents := script.Agents()
	for _, agent := range agents {
		seen := script.Seen(agent)
		script.CompareRaw(script.Raw(agent), seen)
		script.Compare(seen, all)
		script.Check(script.Lost(agent) == 0, "lost", script.Lost(agent))
	}
	script.Collect(agents)
	for _, agent := range agents {
		script.Strings(agent)
		script.States(agent)
	}
	for _, agent := range agents {
		script.Stop(agent)
	}
	if len(agents) > 0 {
		n := len(script.Seen(agents[0]))
		script.Run()
		script.Check(len(script.Seen(agents[0])) == n, "events after unregister")
	}
	fmt.Println("ok")
	panic(fmt.Errorf("the end: %d", len(agents)))
}
