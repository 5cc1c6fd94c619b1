// Package idtable maps the IDs in a trace to values. A [Table] is for IDs of any size, such as those of goroutines. An
// [Index] is for the strings and stacks of a generation, which have small IDs and are all read before they are used.
package idtable
