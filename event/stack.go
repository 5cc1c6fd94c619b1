package event

// A Frame is one call frame. Inlined calls have frames of their own, as in a Go traceback.
type Frame struct {
	Func string `json:"func"` // package-qualified name of the function, as in the symbol table: "net/http.(*conn).serve"
	File string `json:"file"` // path of the source file, as recorded by the compiler
	Line int    `json:"line"` // line number in File, starting at 1; 0 if unknown
}

// IsZero reports whether f is the zero Frame, that is, nothing about the frame is known.
func (f Frame) IsZero() bool { return f == Frame{} }
