// Command testreport reads the output of `go test -json` and prints what `go test` prints, followed by a summary.
//
// The summary lists the skipped tests and the reasons, so that a test that does not run is noticed. If CI=true is set
// in the environment, a skipped test counts as a failure. The summary also lists the tests that did not end, and the
// packages that failed without a failed test because they timed out, crashed or did not build. Their output is printed
// in full, including the panic and the stacks of all goroutines. The line after the counts names the Go releases that the targets
// were built with. The tests that took longest follow it.
//
// Progress is written to stderr. If stderr is a terminal, it is a status line with the tests that are running. Otherwise
// there is a line for each package that starts, and for each test that has been running for minutes.
package main
