// Package problem has the problems that a trace can have: their codes, their severities, and the list that Validate keeps.
//
// The central type is [Judge]. The code that reads a trace reports each problem to a Judge, which either keeps it in a
// [List] so that the work can continue, or remembers the first [Error], which ends the work.
package problem
