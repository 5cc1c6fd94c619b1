// Package loupe observes running Go programs from outside: what their goroutines do, wait for and are created by, as a
// stream of events. The program is not rebuilt and not restarted. EngineInline stops it for some milliseconds when it begins
// and when it ends, EngineUprobe does not.
//
// The central type is Session: Attach makes one for a process, Events yields what happens. The words of the events are
// those of package event.
package loupe
