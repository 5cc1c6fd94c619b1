// Package place returns short names of functions and files, and finds the innermost line of a stack that belongs to the
// program and not to the Go distribution.
package place

import (
	"path"
	"strings"

	"github.com/loupe-go/loupe/event"
)

// Package returns the import path of the package that a function belongs to, as far as its symbol name tells.
func Package(function string) string {
	// Type arguments hold import paths of their own.
	if i := strings.IndexByte(function, '['); i >= 0 {
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return function
	}
	return function[:slash+dot]
}

// ShortFunc returns a function's name without the directories of its import path: "http.(*conn).serve".
func ShortFunc(function string) string {
	return function[strings.LastIndexByte(Package(function), '/')+1:]
}

// ShortFile returns a frame's file as one would name it inside its module when the frame belongs to that module, else
// with its last directory.
func ShortFile(f event.Frame, module string) string {
	dir, base := path.Split(f.File)
	dir = strings.TrimSuffix(dir, "/")
	if rel, ok := strings.CutPrefix(Package(f.Func), module+"/"); ok && module != "" && strings.HasSuffix(dir, "/"+rel) {
		return rel + "/" + base
	}
	if dir == "" {
		return base
	}
	return path.Join(path.Base(dir), base)
}

// standard reports whether a package belongs to the Go distribution, judging by its import path.
func standard(pkg, module string) bool {
	if pkg == "main" || module != "" && (pkg == module || strings.HasPrefix(pkg, module+"/")) {
		return false
	}
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

// Of returns the innermost frame that belongs to the program rather than to the Go distribution: the line that its
// authors would look at. module is the path of the program's main module, or empty if unknown. Of returns the zero Frame
// if there is no such frame.
func Of(stack []event.StackFrame, module string) event.Frame {
	for i := range stack {
		if !standard(Package(stack[i].Func), module) {
			return stack[i].Frame
		}
	}
	return event.Frame{}
}

// OfEvent is like Of for the stack of an event. If there is no such frame, it returns the innermost frame, or the zero
// Frame if there is no stack.
func OfEvent(s *event.Stack, module string) event.Frame {
	if s == nil || len(s.Frames) == 0 {
		return event.Frame{}
	}
	for _, f := range s.Frames {
		if !standard(Package(f.Func), module) {
			if f.IsZero() {
				break
			}
			return f
		}
	}
	return s.Frames[0]
}
