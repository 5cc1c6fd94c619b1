// Package raw reads and writes Go execution traces, event by event, in the wire format of the runtime and in a text format
// for people.
//
// Its central type is Event: one event as it stands in a trace, framing included. A Reader or a TextReader fills it, a
// Writer or a TextWriter writes it, and Copy moves all of them from one to the other:
//
//	r, err := raw.NewReader(wireFile)
//	...
//	w, err := raw.NewTextWriter(textFile, r.Version())
//	...
//	_, err = raw.Copy(w, r)
//	...
//	err = w.Close()
//
// The package interprets nothing: events come in the order they have in the file, which is not that of time, and numbers,
// strings and stacks are what the file says. It serves to look at a trace, to edit one by hand, to make one for a test and
// to write tools. What a trace means is told by golang.org/x/exp/trace.
//
// # Versions
//
// A trace begins with the release whose format it has. All formats since Go 1.11 are known; see Version for which release
// writes which. Go 1.22 changed everything. The versions before it (Version.V1) have other events, named here as
// internal/trace named them, with dt for the time since the previous event of the P and stack for the event's own stack.
// The versions since then have the names that `go tool trace -d=wire` prints. Version.Specs has all of them.
//
// # Wire format
//
// The header is 16 bytes: "go 1.22 trace" and three zeros. Numbers are unsigned LEB128 of up to 10 bytes. An event is a
// byte that tells its type, then its arguments; for a stack then four numbers for each frame; for an event with data then
// the number of bytes and the bytes. In V1 versions the upper two bits of the first byte are the number of arguments less
// one, where 3 stands for more and has the length of the arguments follow in bytes; a string has 0.
//
// # Text format
//
// A text trace is UTF-8, line by line. The first line is the header:
//
//	Trace Go1.22
//
// Every event is a line of its own: the name, then all arguments in the order of the specification, each with its name, an
// equals sign and the value in decimal:
//
//	GoStart dt=23 g=7 g_seq=1
//
// An event with data has a second line, with the data as a Go string in double quotes, or in back quotes; it follows
// strconv.Quote. Its length is not written, as it follows from the data. If the line is missing, there is no data.
//
//	String id=5
//		data="hello, world\n"
//
// A stack has a line for each frame, as many as its last argument tells. func and file are IDs of strings:
//
//	Stack id=4 nframes=2
//		pc=4919361 func=10 file=11 line=35
//		pc=4919201 func=12 file=11 line=20
//
// White space is what unicode.IsSpace says. Where one such character is, there may be any number of them, also at the
// begin and the end of lines, which may end with CR LF. Lines of white space are skipped. A # that is not part of data
// begins a comment, which ends with the line.
//
// This is the format of the package internal/trace/raw in the Go tree. Each reads what the other writes, but for what that
// one cannot represent (see below), and it takes no comment in the line of an event.
//
// # Widths
//
// A number may take more bytes on the wire than it needs. The runtime writes some that way: the sizes of batches and, in
// V1 versions after Go111, the lengths of stacks. Readers whose field KeepWidths is set note such widths in Event.Widths,
// and writers heed them. So a trace can be made text and become the same bytes again. In the text they stand in a comment
// before the event:
//
//	#widths size=10
//	EventBatch gen=1 m=4711 time=9120131 size=38
//
// It names those numbers, in their order, that take more bytes than they need. They are named like the arguments; the length
// of data is called data, the length of an event of a V1 version length, and 3.pc is the pc of the fourth frame. If an edit
// makes a number too big for its width, it gets the bytes it needs.
//
// # Sizes
//
// An EventBatch tells how many bytes its events take, and readers rely on it. After an edit of a text the number is wrong.
// A Writer whose field RecomputeSizes is set puts the right one there. The length of an ExperimentalBatch, and of V1 events,
// is always right, since neither is written in text.
//
// # Differences from internal/trace/raw
//
// Empty data keeps its line, lines may have up to MaxLine bytes, V1 versions are known, widths can be kept and sizes
// recomputed. Events of experiments (GODEBUG=traceallocfree=1) are known in all versions that have them; the package in Go
// 1.25 and later knows them in the newest version alone. Go 1.22's package names the arguments of CPUSample in an order
// that its runtime does not write them in; here they are m, p and g, as in all later releases.
//
// # Bad input
//
// Input is not validated beyond what it takes to find the events in it. Whatever it is, readers end with an error that says
// where, a *SyntaxError, and take no more memory than MaxLine, MaxData and MaxFrames allow.
package raw
