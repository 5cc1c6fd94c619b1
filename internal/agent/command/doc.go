// Package command is the command line of the node agent: flags, --check, --version, signals, exit status.
//
// [Main] is the entry point. It loads the configuration and calls the agent with a [Start].
package command
