//go:build loupe_glti

package glti

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// nativeStates are the events whose callbacks of native agents a thread calls. Those of Go agents are called by the registration.
var nativeStates = map[Event]bool{EvGoWaiting: true, EvGoInSyscall: true}

// TestPatchedNativeTable compares the table of events in the C code of the patched runtime with that of this package.
func TestPatchedNativeTable(t *testing.T) {
	text, err := os.ReadFile("../internal/overlay/patches/events.patch")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^\t\[(\d+)\] = (\{.*\}),$`).FindAllStringSubmatch(string(text), -1) {
		rows[match[1]] = match[2]
	}
	for _, ev := range Events() {
		c := capability(ev.method())
		want := fmt.Sprintf("{ %q", ev)
		if c.Available {
			want += ", GLTI_" + c.Class.String()
		}
		switch {
		case nativeStates[ev]:
			want = fmt.Sprintf("{ %q, GLTI_C", ev)
		case events[ev].never:
			want = fmt.Sprintf("{ %q, GLTI_C, 1", ev)
		case strings.HasPrefix(c.Limits, "late where"):
			want += ", 0, GLTI_LATE"
		case c.Limits != "":
			want += fmt.Sprintf(", 0, %q", c.Limits)
		}
		if got := rows[fmt.Sprint(int(ev))]; got != want+" }" {
			t.Errorf("%d: %s, want %s }", ev, got, want)
		}
	}
	if len(rows) != len(Events()) {
		t.Errorf("%d rows, want %d", len(rows), len(Events()))
	}
}
