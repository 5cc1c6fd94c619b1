package event

import (
	"slices"
	"testing"
)

func TestRuntimeWork(t *testing.T) {
	for _, test := range []struct {
		functions []string
		want      string
	}{
		{nil, ""},
		{[]string{"main.sign", "main.main"}, ""},
		{[]string{"main.sign", "runtime.gcMarkDone"}, ""},
		{[]string{"runtime.gcMarkDone", "main.sign"}, "GC mark termination"},
		{[]string{"runtime.goparkunlock", "runtime.semacquire1", "runtime.gcMarkDone", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.sign"}, "GC mark termination"},
		{[]string{"runtime.gcParkAssist", "runtime.gcAssistAlloc", "runtime.mallocgc", "main.sign"}, "GC assist"},
		{[]string{"runtime.chanrecv1", "main.wait"}, ""},
		{[]string{"runtime.gcStart", "runtime.GC", "main.collect"}, "GC start"},
	} {
		if got := RuntimeWork(slices.Values(test.functions)); got != test.want {
			t.Errorf("%v: %q, want %q", test.functions, got, test.want)
		}
		s := &Stack{}
		for _, f := range test.functions {
			s.Frames = append(s.Frames, Frame{Func: f})
		}
		if got := s.RuntimeWork(); got != test.want {
			t.Errorf("stack %v: %q, want %q", test.functions, got, test.want)
		}
	}
}

func TestWaitText(t *testing.T) {
	for _, test := range []struct{ reason, work, text string }{
		{"semacquire", "", "semacquire"},
		{"semacquire", "GC mark termination", "GC mark termination (semacquire)"},
		{StopPreempted, "GC start", "preempted during GC start"},
		{StopGosched, "GC start", "runtime.Gosched during GC start"},
		{StopPreempted, "", "preempted"},
		{"GC assist wait", "", "GC assist wait"},
		{"chan receive (nil chan)", "", "chan receive (nil chan)"},
		{"", "", ""},
	} {
		text := WaitText(test.reason, test.work)
		if text != test.text {
			t.Errorf("%q for %q: %q, want %q", test.reason, test.work, text, test.text)
		}
		if reason, work := SplitWait(text); reason != test.reason || work != test.work {
			t.Errorf("%q: split into %q and %q", text, reason, work)
		}
	}
	if got := WaitText("GC assist wait", "GC assist"); got != "GC assist wait" {
		t.Errorf("a reason that says it: %q", got)
	}
}
