// Package idtable finds things by the numbers that a trace gave them. A [Table] is for IDs of any size, such as those of
// goroutines. An [Index] is for the strings and stacks of a generation, which have small IDs and are read before they are
// used.
package idtable
