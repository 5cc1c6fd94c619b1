// Package tree collects the spans of a request until the request has ended.
//
// The central type is [Collector].
package tree
