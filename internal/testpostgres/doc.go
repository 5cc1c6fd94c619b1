// Package testpostgres starts a PostgreSQL server for tests, with its data in a temporary directory. It requires Debian's package
// postgresql.
//
// The central type is [Server].
package testpostgres
