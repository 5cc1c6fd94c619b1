package place

import (
	"strings"
	"testing"

	"github.com/loupe-go/loupe/event"
)

// stackOf makes a stack, leaf first. A name that starts with "-" is a hidden frame.
func stackOf(funcs ...string) []event.StackFrame {
	var stack []event.StackFrame
	for i, f := range funcs {
		name, hidden := strings.CutPrefix(f, "-")
		stack = append(stack, event.StackFrame{Frame: event.Frame{Func: name, File: "/src/" + name + ".go", Line: 10 + i}, Hidden: hidden,
			PC: uint64(0x1000 + i)})
	}
	return stack
}

func TestNames(t *testing.T) {
	for _, test := range []struct{ function, pkg, short string }{
		{"main.main", "main", "main.main"},
		{"net/http.(*conn).serve", "net/http", "http.(*conn).serve"},
		{"github.com/a/b.v2.F.func1", "github.com/a/b", "b.v2.F.func1"},
		{"slices.SortFunc[go.shape.[]example.com/x/y.T]", "slices", "slices.SortFunc[go.shape.[]example.com/x/y.T]"},
		{"goexit", "goexit", "goexit"},
		{"", "", ""},
	} {
		if got := Package(test.function); got != test.pkg {
			t.Errorf("Package(%q) = %q, want %q", test.function, got, test.pkg)
		}
		if got := ShortFunc(test.function); got != test.short {
			t.Errorf("ShortFunc(%q) = %q, want %q", test.function, got, test.short)
		}
	}
}

func TestShortFile(t *testing.T) {
	for _, test := range []struct{ function, file, module, want string }{
		{"example.com/app/internal/db.Open", "/home/x/app/internal/db/open.go", "example.com/app", "internal/db/open.go"},
		{"example.com/app/internal/db.Open", "example.com/app/internal/db/open.go", "example.com/app", "internal/db/open.go"},
		{"net/http.Serve", "/usr/local/go/src/net/http/server.go", "example.com/app", "http/server.go"},
		{"main.main", "/src/main.go", "", "src/main.go"},
		{"main.main", "main.go", "", "main.go"},
	} {
		if got := ShortFile(event.Frame{Func: test.function, File: test.file}, test.module); got != test.want {
			t.Errorf("ShortFile(%q, %q) = %q, want %q", test.file, test.module, got, test.want)
		}
	}
}

func TestOf(t *testing.T) {
	for _, test := range []struct {
		stack  []event.StackFrame
		module string
		want   string
	}{
		{stackOf("-runtime.gopark", "internal/poll.(*FD).Read", "net.(*conn).Read", "main.serve", "main.main"), "", "main.serve"},
		{stackOf("sync.(*Mutex).Lock", "example.com/lib.Get", "main.main"), "", "example.com/lib.Get"},
		{stackOf("sync.(*Mutex).Lock", "myapp/store.Get", "myapp.main"), "myapp", "myapp/store.Get"},
		{stackOf("-runtime.gopark", "net/http.(*conn).serve"), "", ""},
		{nil, "", ""},
	} {
		if got := Of(test.stack, test.module); got.Func != test.want {
			t.Errorf("Of(%v) = %q, want %q", test.stack, got.Func, test.want)
		}
	}
}
