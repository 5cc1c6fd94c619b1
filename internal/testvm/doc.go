// Command testvm runs tests of this repository in an emulated machine, with a different kernel or a different
// architecture than that of the host. `make emulated` uses it.
//
//	go run ./internal/testvm [flags] PACKAGE [TEST FLAGS] [-- PACKAGE [TEST FLAGS]]...
//
// PACKAGE can also be the path of a program in the machine, such as /bin/loupe or /bin/sh, followed by its arguments.
//
// The command is for code that depends on the kernel and cannot run in qemu-user, such as ptrace and probes. Tests are
// compiled on the host. Together with their targets they are put into the initial file system of the kernel (archive).
// In the machine, the first process, which is part of this repository (package init), runs them one after the other.
// Their output is sent through the serial line of the machine to standard output. The machine has no compilers, so
// targets are also built on the host (-programs, -go). A test that requires a different target fails. Targets with cgo
// are omitted, and their tests are skipped, if the cross compiler is not installed.
//
// The command requires qemu-system-aarch64 or qemu-system-x86_64 (Debian packages qemu-system-arm and qemu-system-x86)
// and apt-get, which downloads programs that the tests run, and the kernel unless it is given as a file. Downloads are
// kept in the user's cache directory.
package main
