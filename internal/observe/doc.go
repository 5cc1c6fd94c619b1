// Package observe is the source of the events of programs that contain the agent of package glti/observe. It connects to the agent's socket,
// and requires neither ptrace nor eBPF nor a privilege.
//
// The central type is [Session], which yields the same events as a session of probes. The protocol is that of package
// glti/observe/wire. What the agent sends is foreign: it is checked and its memory is bounded.
package observe
