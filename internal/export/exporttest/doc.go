// Package exporttest contains what the tests of exporters share: streams of events to export, and a common representation
// of what was drawn.
//
// The central type is [Drawing]. A [Recorder] makes a Drawing from the calls of package timeline. The test of an exporter
// makes another Drawing from the output of its Writer. The two must be equal line by line, and Check must not find any
// problem in them.
package exporttest
