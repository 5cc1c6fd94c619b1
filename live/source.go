package live

import (
	"iter"

	"github.com/loupe-go/loupe/event"
)

// A Source yields the events of one program. *loupe.Session implements Source. A Source can also be a [MemorySource] and an
// [AllocSource]. The methods must be safe for concurrent use, also
// after the events have ended.
type Source interface {
	// Events returns an iterator over the events, in the order that event.Event documents. An event is valid until the next
	// one is yielded. Its Stack and Origin remain valid. The iterator is used once. It ends when the program exits, when the
	// source fails, and after Detach or Close.
	Events() iter.Seq[*event.Event]

	// Err returns the error that ended the events, or nil if the program exited or the source was closed.
	Err() error

	// Stats returns the event counts since the start of the source.
	Stats() event.Stats

	// Warnings returns messages for the user about the source.
	Warnings() []event.Warning

	// Alive returns the IDs of all goroutines that are currently alive, including those of the runtime itself, in no
	// particular order. The goroutines are read during the call.
	Alive() ([]uint64, error)

	// Usage returns the current resource usage of the process. It can return a partial result and an error.
	Usage() (event.Usage, error)

	// Detach ends the events. Those that have happened are still yielded, also if the iteration begins afterwards. It may be called more
	// than once.
	Detach() error

	// Close detaches and releases the source. If the events are not being iterated, they are discarded. It may be called more than once,
	// and also returns the error of Detach.
	Close() error
}
