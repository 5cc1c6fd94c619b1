// Command testvm runs tests of this repository in an emulated machine: under another kernel, or for another architecture,
// than there is at hand. `make emulated` uses it.
//
//	go run ./internal/testvm [flags] PACKAGE [TEST FLAGS] [-- PACKAGE [TEST FLAGS]]...
//
// Instead of a package there may be the path of a program in the machine, such as /bin/loupe or /bin/sh, with its arguments.
//
// It is for code that has to do with the kernel, which qemu-user cannot run: ptrace, probes. Tests are compiled here, put
// with their targets into the file system that a kernel begins with (archive), and run there one after the other by a first
// process of our own (package init). What they print goes through the machine's serial line to the standard output.
// The machine has no compilers: targets are made here too (-programs, -go), and a test that wants another one fails. Those
// with cgo are left out, and their tests skip, where the cross compiler is missing.
//
// It needs qemu-system-aarch64 or qemu-system-x86_64 (Debian packages qemu-system-arm, qemu-system-x86) and apt-get, which
// downloads programs that tests run, and the kernel unless it is given as a file. What it loads is kept in the user's cache.
package main
