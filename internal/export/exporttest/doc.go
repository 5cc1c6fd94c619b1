// Package exporttest has what the tests of exporters share: streams of events to export, and one way to write down what was
// drawn.
//
// Its central type is Drawing. A Recorder draws what package timeline tells, and the test of an exporter makes another
// Drawing from what its Writer wrote. Both must be equal, line by line, and Check must find nothing wrong with them.
package exporttest
