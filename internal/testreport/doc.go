// Command testreport reads the output of `go test -json` and prints what `go test` would, followed by a list of the tests
// that were skipped and why: a test that does not run is not forgotten. With CI=true in the environment a skipped test
// is a failure.
package main
