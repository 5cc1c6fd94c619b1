// Package gostate holds the rules for the states of goroutines: which state a goroutine is in after an event, and which
// states before the event fit it. It also classifies wait reasons: which of them mean a lock, for example.
//
// The central types are [Rules], the rules for the kinds of events that a stream has, and [Wait]. [After] and [Before] are
// the rules for all kinds. The only input is events, which can come from any source. A [Table] finds what a user of the
// package knows about a goroutine by its ID.
//
// Package trace/internal/order is the model of execution traces. It is stricter, and its rules are those of the format.
package gostate
