// Package realtarget gets and runs real programs that were not written for
// Loupe, for the tests that look at them: databases, a message broker, web
// servers, a peer-to-peer daemon, a language server.
//
// Its central type is Spec. Programs lists them; Spec.Path gets an executable
// and Spec.Start runs it on loopback with its data in a temporary directory.
// The Process gives the program's own account of its goroutines, by its
// net/http/pprof endpoint and its metrics, to hold against what Loupe sees, and
// StartLoad makes it work: clients that speak its protocol and check the
// answers.
//
// # Where the programs come from
//
// Packages of Debian (any release that has them; versions of bookworm given)
// are downloaded by apt-get and unpacked, never installed. That needs no root,
// but package lists: when they are missing, root gets them by `apt-get update`.
// All are built by the Go that Debian has (1.19 in bookworm) with cgo, and
// stripped by binutils.
//
//	prometheus   prometheus 2.42.0     time series database
//	etcd-server  etcd 3.4.23           consensus and gRPC
//	caddy        caddy 2.6.2           web server and proxy
//	syncthing    syncthing 1.19.2      peer-to-peer file synchronisation
//
// Modules are built without cgo and with -trimpath, by the release named:
//
//	github.com/nsqio/nsq v1.2.0                 nsqd         1.13.15  message broker of 2019, full symbols
//	github.com/nats-io/nats-server/v2 v2.15.2   nats-server  1.27.4   message broker, full symbols
//	golang.org/x/tools/gopls v0.24.0            gopls        1.27.4   language server, no DWARF
//
// What was got is kept below the user's cache directory, in loupe-realtarget,
// and shared by all test processes. A package is got once: remove its directory
// to get the version that Debian has now.
package realtarget
