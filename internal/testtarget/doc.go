// Package testtarget makes the Go programs that Loupe's tests look at, and the
// truth they are compared with.
//
// Its central type is Spec: which program, built by which Go release, for
// which architecture and in which shape (stripped, PIE, cgo, library, plugin). Build turns a
// Spec into an executable by running the real toolchain of that release
// through GOTOOLCHAIN, and keeps the result in the user's cache directory, so
// that the many test processes of one `go test ./...` share it. Start runs an
// executable and speaks the programs' line protocol with it; ParseStacks reads
// the text of runtime.Stack, which is what a snapshot is held against.
//
// # Programs
//
// The sources are below testdata/src, one directory for each program, and are
// embedded into this package. They compile with every release of Versions.
// Files in testdata/src/common are part of every program.
//
//	zoo    one goroutine for each way to rest: every wait reason and every
//	       shape of stack that can be had without a running goroutine
//	coder  workers whose call chain spells a code word, so that a stack put
//	       together from two moments is recognised (see CheckCodeWord)
//	flood  any number of parked goroutines beside a measured workload
//	churn  goroutines born, grown, panicking and dying at full speed
//	       beside a check sum of the work they did
//	forker one child process after the other
//	mill   a known amount of work on command
//	mixer  work of many kinds at once, each with a known result; also as a
//	       shared library or archive for a program of C (testdata/host), and with
//	       a plugin
//	selftrace  everything that makes events, while it records its own
//	       execution trace
//	tiny   the protocol and nothing else; portable to every GOOS and GOARCH
//
// # Protocol
//
// A program prints `ready <pid>` when it is in the state it promises, then
// answers each line on its standard input:
//
//	version  runtime.Version()
//	num      runtime.NumGoroutine()
//	gc       collects twice, then `gc <begin> <end>` in Unix nanoseconds; this
//	         gives goroutines that wait the time their age is counted from
//	stacks   `<<<`, the text of runtime.Stack(buf, true), `>>>`; taken by
//	         the goroutine main.dumper, which is the only running one
//	quit     ends with status 0, as the end of the input does
//
// What a program adds is in the comment at the top of its main.go. An unknown
// command is answered with a line that starts with `error`.
//
// # Bad input
//
// BadBinaries makes files that are given to Loupe as executables and are none it
// can observe: of other compilers, machines and systems, cut off, damaged.
package testtarget
