// Package problem defines the problems that a trace can have: their codes, their severities, and the list that Validate
// returns.
//
// The central type is [Judge]. The code that reads a trace reports each problem to a Judge. The Judge either adds it to a
// [List] and lets the reader continue, or stores the first [Error], at which the reader stops.
package problem
