// Package rawtruth tests package raw with execution traces that the toolchains of all formats record, and with the
// tables of events in their sources. These tests are in a separate package so that package raw and its tests depend
// only on the standard library.
package rawtruth
