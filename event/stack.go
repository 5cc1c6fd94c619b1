package event

// Frame is one logical call frame. A function that the compiler inlined has a frame of its own, as in a Go traceback.
type Frame struct {
	Func string `json:"func"` // package-qualified name as the binary's symbol table spells it: "net/http.(*conn).serve"
	File string `json:"file"` // source file as the compiler recorded it
	Line int    `json:"line"` // line within File, 1 the first; 0 when unknown
}

// IsZero reports whether nothing is known of the frame.
func (f Frame) IsZero() bool { return f == Frame{} }
