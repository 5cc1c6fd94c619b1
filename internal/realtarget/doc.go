// Package realtarget obtains and runs real programs that were not written for
// Loupe, so that tests can observe them: databases, a message broker, web
// servers, a peer-to-peer daemon, a language server.
//
// The central type is [Spec]. Programs returns all Specs, and Chosen returns those that tests use. Spec.Path returns an
// executable, and Spec.Start runs it on the loopback interface with its data in a temporary directory. A [Process]
// returns the program's own data about its goroutines, from its net/http/pprof endpoint and its metrics. Tests compare
// them with what Loupe reports. StartLoad generates load with clients that speak the program's protocol and check the
// answers.
//
// # Sources of the programs
//
// Debian packages are downloaded with apt-get and unpacked, but not installed.
// Any Debian release that has them is suitable; the versions below are those in
// bookworm. This does not require root, but it requires package lists. If these
// are missing and the tests run as root, they call `apt-get update`. All
// packages are built with cgo by Debian's version of Go (1.19 in bookworm), and
// stripped by binutils.
//
//	prometheus   prometheus 2.42.0     time series database
//	etcd-server  etcd 3.4.23           consensus and gRPC
//	caddy        caddy 2.6.2           web server and proxy
//	syncthing    syncthing 1.19.2      peer-to-peer file synchronisation
//
// Modules are built without cgo and with -trimpath, by the given release:
//
//	github.com/nsqio/nsq v1.2.0                 nsqd         1.13.15  message broker of 2019, full symbols
//	github.com/nats-io/nats-server/v2 v2.15.2   nats-server  1.27.4   message broker, full symbols
//	golang.org/x/tools/gopls v0.24.0            gopls        1.27.4   language server, no DWARF
//
// Servers are programs with libraries that send and serve requests, stripped, for tests of spans:
//
//	go.etcd.io/etcd/server/v3 v3.7.3                  1.27.4   gRPC
//	github.com/distribution/distribution/v3 v3.1.2    1.27.4   go-redis, gorilla/mux; uses Redis
//	github.com/FerretDB/FerretDB v1.24.2              1.27.4   pgx; serves MongoDB's protocol and uses PostgreSQL
//	miniflux.app/v2 v2.3.5                            1.27.4   database/sql with lib/pq; uses PostgreSQL
//	github.com/smallstep/certificates v0.30.2         1.26.11  chi, database/sql, HTTP/2; uses PostgreSQL
//
// The OpenTelemetry Collector is built by its own builder (v0.155.0), for package testcollector. The API server of
// Kubernetes is built from a module of this repository, for package testkube. They are not among Programs.
//
// The programs are kept in the directory loupe-realtarget of the user's cache
// directory, and all test processes share them. A package is downloaded only
// once. Remove its directory to download Debian's current version.
package realtarget
