// Package sets has what the sets of probes for libraries have in common: settings and attributes.
//
// The central function is [Field].
package sets
