// Package testsets tests sets of probes from end to end: sets in other packages, with both engines, on real programs.
package testsets
