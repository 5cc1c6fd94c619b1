// Package spans defines the request spans that Loupe makes of what happens in a Go program, and how the time of a request was
// spent. See loupe.Options.Spans.
//
// The central type is [Span].
package spans
