// Package wire is the protocol between the agent of package observe and its clients, such as Loupe. The agent listens on a Unix socket in
// the program that it observes; a client connects.
//
// The central types are [Message], which both sides send, and [Reader]. The package imports nothing but the standard library.
//
// # Messages
//
// A message is four bytes with the length of the rest, little-endian and at most [MaxMessage], one byte with its type, and its fields.
// Numbers are varints as in package encoding/binary: signed ones in zig-zag form where a field can be negative. A text is its length and
// its bytes. A list is its length and its elements. A receiver ends the connection after a message that it cannot decode.
//
// The client sends
//
//	Hello       once, first
//	Start       once: begins the stream of events
//	List        asks for the goroutines that exist
//	ReadMemory  asks for the memory statistics
//	Stop        once, last: the agent sends what the program has recorded until then, and ends the connection
//
// and the agent
//
//	Welcome     once, first, or Refused and the end of the connection
//	Started     the stream begins; earlier events are not in it
//	Text        the next text of the table of texts, which begins at 1; 0 is the empty text
//	Site        the place of a go statement, by its address
//	Func        the function that a goroutine starts, by its address
//	Stack       the frames of a stack, by its ID
//	Events      events, and how far the stream has come
//	Goroutines  some of the goroutines; GoroutinesEnd follows the last ones
//	Memory      memory statistics
//	End         the program ends
//
// Text, Site, Func and Stack come before the first use. Lists and memory statistics have the number of the request. A list is also sent
// after Started, with the number 0: the goroutines that existed when the stream began.
//
// # Time and order
//
// Times are in nanoseconds of a monotonic clock of the program. Welcome has two times of the same moment, on that clock and since the Unix
// epoch. Events are nearly in the order of their times: an event can be some milliseconds late, or more if a thread of the program does
// not run. [Events].Until is a time up to which the agent has sent everything that the program had written to its buffers.
//
// # Loss
//
// Each message Events has the totals since Started of what was lost: in the buffers of the program, for all events together, and in that
// of the connection, for each event. The agent never waits for a client.
//
// # Versions
//
// [Version] is the version of the protocol. The agent refuses a client of another version. New events and new fields of Memory do not
// change it: the agent sends only events that Start has selected, and Welcome lists those that it has.
package wire
