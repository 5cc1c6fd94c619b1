package memory

// What the parts of a trace take in memory, in bytes. These are estimates: of the largest form that a thing has while it is
// kept, with the tables that find it.
const (
	String    = 160
	Stack     = 384
	Frame     = 16  // a reference to a frame
	PC        = 320 // a frame itself
	Sample    = 160
	Batch     = 160
	Stream    = 512
	Goroutine = 512
	Proc      = 256
	Task      = 128
	Problem   = 512
)
