// Package testtarget builds and runs the Go programs that Loupe's tests
// observe, and provides the expected results.
//
// The central type is [Spec]. It names a program, the Go release that builds it,
// the architecture, and the form (stripped, PIE, cgo, library, plugin). [Build]
// builds the executable of a Spec with the actual toolchain of that release, by
// means of GOTOOLCHAIN. It keeps the executable in the user's cache directory,
// so that the many test processes of one `go test ./...` share it. [Start] runs
// an executable and talks to it in the line protocol of the programs.
// [ParseStacks] parses the output of runtime.Stack, with which tests compare
// snapshots.
//
// # Programs
//
// The sources are in testdata/src, one directory for each program, and are
// embedded in this package. They compile with every release in Versions. The
// files in testdata/src/common are part of every program.
//
//	zoo    one goroutine for each way to wait: every wait reason and every
//	       form of stack that is possible without a running goroutine
//	coder  workers whose call chain spells a code word, which reveals a stack
//	       that was combined from two moments (see CheckCodeWord)
//	flood  any number of parked goroutines and a workload that is measured
//	churn  goroutines that start, grow their stacks, panic and end at full
//	       speed, and a checksum of their work
//	forker one child process after the other
//	mill   a known amount of work on command
//	shift  goroutines that sleep and compute in turn, and keep the books of it
//	mixer  many kinds of work at once, each with a known result; also as a
//	       shared library or archive for a C program (testdata/host), and
//	       with a plugin
//	selftrace  everything that causes events, while it records its own
//	       execution trace
//	depot  calls of a library of which there are two versions (Spec.Module)
//	tandem    an HTTP/2 server and its clients, with several versions of golang.org/x/net (Spec.Flags)
//	exchange  a gRPC server and its clients, with several versions of gRPC (Spec.Flags)
//	burner uses processor time in known places, and records its own CPU
//	       profile
//	shop   servers, clients and a database, for tests that read the structs
//	       of the standard library
//	ledger operations of package database/sql, with drivers that have no
//	       database
//	pantry operations of a Redis client, with several versions of it (Spec.Flags)
//	clerk  operations of several versions of pgx (Spec.Flags), and of
//	       database/sql with its driver and with lib/pq, on a PostgreSQL
//	       server
//	curator  operations of several versions of the MongoDB driver
//	       (Spec.Flags), on a server of its own that answers without a
//	       database
//	postoffice  a broker of Kafka's protocol
//	courier, envoy, mailer  clients of Kafka, with several versions of kafka-go, franz-go and sarama
//	colony many goroutines that live long: they wait, leak, contend, or are
//	       created at a rate
//	tiny   only the protocol; portable to every GOOS and GOARCH
//
// # Protocol
//
// A program prints `ready <pid>` when it has reached its documented state.
// Then it answers each line on its standard input:
//
//	version  runtime.Version()
//	num      runtime.NumGoroutine()
//	gc       runs two collections, then prints `gc <begin> <end>` in Unix
//	         nanoseconds; the runtime measures the age of waits from then on
//	stacks   `<<<`, the output of runtime.Stack(buf, true), `>>>`; called by
//	         the goroutine main.dumper, which is the only running one
//	quit     exits with status 0, as at the end of the input
//
// The comment at the top of a program's main.go documents its other commands.
// The answer to an unknown command is a line that starts with `error`.
//
// # Bad input
//
// [BadBinaries] creates files that tests pass to Loupe as executables, but that
// Loupe cannot observe: files for other compilers, machines and systems, and
// truncated or damaged files.
package testtarget
