// Package raw reads and writes Go execution traces event by event, in the wire format of the runtime and in a
// human-readable text format.
//
// The central type is [Event], a single event as it is stored in a trace. This includes the events that frame others,
// such as batches. A [Reader] or [TextReader] reads events, a [Writer] or [TextWriter] writes them, and [Copy] copies
// all events from a reader to a writer:
//
//	r, err := raw.NewReader(wireFile)
//	...
//	w, err := raw.NewTextWriter(textFile, r.Version())
//	...
//	_, err = raw.Copy(w, r)
//	...
//	err = w.Close()
//
// The package does not interpret events. They are in the order of the file, which is not chronological, and numbers,
// string IDs and stack IDs are those in the file. Use the package to inspect a trace, to edit one by hand, to create
// one for a test, or to write tools. To analyze a trace, use package [github.com/loupe-go/loupe/trace] or
// golang.org/x/exp/trace.
//
// # Versions
//
// A trace begins with the Go release whose format it has. The package supports all formats since Go 1.11. The constants
// of type [Version] list which release writes which format. Go 1.22 introduced a new format. The versions before it,
// for which [Version.V1] reports true, have different events. Their events have the names that internal/trace gave
// them; the argument dt is the time since the previous event of the P, and stack is the stack of the event itself. The
// events of later versions have the names that `go tool trace -d=wire` prints. [Version.Specs] returns the events of a
// version.
//
// # Wire format
//
// The header has 16 bytes: "go 1.22 trace" and three zero bytes. Numbers are encoded as unsigned LEB128 in at most 10
// bytes. An event starts with one byte for its type, followed by its arguments. A stack continues with four numbers for
// each frame. An event with data continues with the length of the data in bytes and the data itself.
//
// In V1 versions, the upper two bits of the first byte are the number of arguments minus one. The value 3 stands for
// four arguments or more, and for stacks; in this case the arguments are preceded by their length in bytes. For a
// string the two bits are 0.
//
// # Text format
//
// A text trace is UTF-8 text. The first line is the header:
//
//	Trace Go1.22
//
// Each event is on a line of its own. The line contains the name of the event and all arguments in the order of the
// specification. An argument is written as its name, an equals sign and its value in decimal:
//
//	GoStart dt=23 g=7 g_seq=1
//
// An event with data has a second line that contains the data as a Go string literal in double quotes or back quotes.
// Writers write it as strconv.Quote does. The length is not written, because it follows from the data. If the line is
// missing, the data is empty.
//
//	String id=5
//		data="hello, world\n"
//
// A stack is followed by one line for each frame. The last argument of the stack is the number of frames. The values of
// func and file are string IDs:
//
//	Stack id=4 nframes=2
//		pc=4919361 func=10 file=11 line=35
//		pc=4919201 func=12 file=11 line=20
//
// White space is defined by unicode.IsSpace. Any amount of it is permitted between words, and at the beginning and end
// of a line. A line can end with CR LF. Blank lines are skipped. A # outside of data starts a comment, which extends to
// the end of the line.
//
// This is the format of package internal/trace/raw in the Go tree. Each package reads what the other writes, with two
// exceptions: internal/trace/raw cannot represent everything (see below), and does not accept a comment after an event on
// the same line.
//
// # Widths
//
// A number can take more bytes on the wire than necessary. The runtime writes some numbers this way: the sizes of
// batches, and the lengths of stacks in V1 versions later than Go111. A reader whose KeepWidths field is set stores
// these widths in Event.Widths, and writers use them. A trace can therefore be converted to text and back to the
// identical bytes. In text, widths are in a comment before the event:
//
//	#widths size=10
//	EventBatch gen=1 m=4711 time=9120131 size=38
//
// The comment lists the numbers that take more bytes than necessary, in their order on the wire, each with its size in
// bytes. They have the names of the arguments. In addition, data is the length of the data, length is the length of an
// event of a V1 version, and 3.pc is the pc of the fourth frame. If an edit makes a number too large for its width, it
// takes as many bytes as necessary.
//
// # Sizes
//
// An EventBatch contains the size of its events in bytes, and readers rely on it. Editing the text of a trace can make
// this number wrong. A Writer whose RecomputeSizes field is set writes the correct size. The length of an
// ExperimentalBatch and the lengths of V1 events are always correct, because they are not part of the text.
//
// # Differences from internal/trace/raw
//
// Empty data has a line of its own, lines can have up to [MaxLine] bytes, V1 versions are supported, widths can be kept
// and sizes recomputed. Events of experiments (GODEBUG=traceallocfree=1) are supported in all versions that have them,
// whereas internal/trace/raw in Go 1.25 and later supports them only in the newest version. In Go 1.22,
// internal/trace/raw names the arguments of CPUSample in a different order than the one in which the runtime writes
// them. Here they are m, p and g, as in all later releases.
//
// # Invalid input
//
// Input is validated only as far as necessary to find the events. For any invalid input, readers return a *[SyntaxError]
// with the position, and use no more memory than [MaxLine], [MaxData] and [MaxFrames] permit.
package raw
