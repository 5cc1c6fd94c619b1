// Command testreport reads the output of `go test -json` and prints what `go test` prints, followed by a summary.
//
// The summary lists the tests that were skipped and why, so that a test that does not run is not forgotten; with CI=true in
// the environment a skipped test is a failure. It also lists the tests that never ended and the packages that failed
// without a failed test: those that timed out, crashed or did not build. Their output is printed in full, with the panic
// and the stacks of all goroutines.
//
// Progress goes to stderr: a status line with the tests that are running if stderr is a terminal, else a line for each
// package that starts and for each test that has been running for minutes.
package main
