// Package testcmd starts the commands that tests run, and defines the environment of tests and their commands.
//
// The environment is what a process inherits: the ignored signals (nohup and shells ignore signals for background jobs),
// the umask, the limits for open files and core files, and the environment variables. Some variables change what programs
// print (TERM, TZ, LANG) or how Go programs run (GODEBUG, GOGC). A test process that imports this package has the same
// environment no matter how it was started, and passes it on.
//
// A command made by [Command] has a deadline. When it expires, the command receives SIGQUIT, which makes a Go program
// print the stacks of its goroutines, and then SIGKILL if it is still running. The test fails and shows the stacks. As
// a result, a program that hangs makes the test that started it fail, and not the whole package.
//
// TestNoOtherCommands fails if a test starts a command in any other way.
package testcmd
