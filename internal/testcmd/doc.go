// Package testcmd starts the commands of tests, and defines the world in which tests and their commands run.
//
// The world is what a process inherits: signals that are ignored, as nohup and shells do for background jobs; the umask; the
// limits of open files and of core files; and the environment, of which a part changes what programs print (TERM, TZ, LANG) or how
// Go programs run (GODEBUG, GOGC). A test process that imports this package gets the same world however it was started,
// and passes it on.
//
// A command made by Command has a deadline. When it passes, the command gets SIGQUIT, of which a Go program prints the
// stacks of its goroutines, and SIGKILL if that does not end it; the test fails and shows the stacks. So a program that
// hangs fails the test that started it, by name, rather than the package.
//
// A test that starts a command in any other way fails TestNoOtherCommands.
package testcmd
