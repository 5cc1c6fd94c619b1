// Package mongo is a set of probes for the MongoDB driver, modules go.mongodb.org/mongo-driver/v2 and go.mongodb.org/mongo-driver since
// v1.16.0: the operations that a program performs.
//
// The span of an operation begins before the driver selects a server and a connection, and ends when the driver has the answer. It
// includes retries. Its server is that of the last attempt. If no server is available, the span has no server, and its name does not
// contain the collection. An operation of the program can be several of the driver: a cursor gets more documents by operations named
// getMore, and a client ends its sessions.
//
// A write that is not acknowledged ends when it was sent. The code of an error is that of the server, and of the first document that
// could not be written. The documents and filters of a command are not reported.
//
// The commands by which the driver connects and monitors servers (hello, isMaster and those for authentication) are not reported, even if
// the program sends them itself.
//
// The central function is [New].
package mongo

import (
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/probe/csrc"
	"github.com/loupe-go/loupe/internal/spans/join"
	"github.com/loupe-go/loupe/internal/spans/sets"
)

//go:generate go run ../../probe/csrc/flatten -ebpf -headers ../../probe/csrc -source probes.c -list probes.c -package mongo -out code.go -code code

// Library is the path of the instrumented module, without its major version.
const Library = "go.mongodb.org/mongo-driver"

// oldest is the minor version of the oldest Go release that is supported.
const oldest = 19

// majors are the modules, and the oldest versions that are supported.
var majors = []probe.Module{{Path: Library + "/v2", Since: "v2.0.0"}, {Path: Library, Since: "v1.16.0"}}

// driver is the package with the probed functions, below the path of a module.
const driver = "/x/mongo/driver."

// Code returns the compiled C half.
func Code() *csrc.Code { return &code }

// New returns sets that report operations to a tracker, one for each major version of the driver. typeName returns the name of the type
// at an address.
func New(t *join.Tracker, typeName func(addr uint64) (string, error)) []*probe.Set {
	var list []*probe.Set
	for _, m := range majors {
		d := &decoder{tracker: t, typeName: typeName, open: map[uint64][]*operation{}}
		set := &probe.Set{Name: m.Path, Code: &code, Settings: settings(m.Path + driver), Decode: d.decode}
		for _, p := range probes(m.Path + driver) {
			p.Since, p.Modules, p.NeedsG, p.Reads, p.Quiet = oldest, []probe.Module{m}, true, true, true
			set.Probes = append(set.Probes, p)
		}
		list = append(list, set)
	}
	return list
}

// probes returns the declarations for a package without what they have in common.
func probes(pkg string) []probe.Declaration {
	execute := pkg + "Operation.Execute"
	return []probe.Declaration{
		{Program: "execute", Funcs: []string{execute}, Words: 2, Settings: []string{"op_name", "op_database"}, Without: "operations of MongoDB are not reported"},
		{
			Program: "command", Funcs: []string{pkg + "Operation.publishStartedEvent"},
			Settings: []string{"op_last", "command_document", "command_name", "command_address"}, Without: "operations of MongoDB are not reported",
		},
		{
			Program: "executed", Funcs: []string{execute}, Place: probe.AtExit, Results: 2, Without: "ends of operations of MongoDB are not reported",
			Settings: []string{"error_code", "error_wrapped", "write_concern", "write_errors", "concern_code", "write_code"},
		},
	}
}

// settings are the offsets of fields of structs in a package.
func settings(pkg string) []probe.Setting {
	var list []probe.Setting
	for name, path := range map[string]string{
		"op_database": "Operation.Database", "op_name": "Operation.Name", "op_last": "Operation.omitReadPreference",
		"command_document": "startedInformation.cmd", "command_name": "startedInformation.cmdName", "command_address": "startedInformation.serverAddress",
		"error_code": "Error.Code", "error_wrapped": "Error.Wrapped",
		"write_concern": "WriteCommandError.WriteConcernError", "write_errors": "WriteCommandError.WriteErrors",
		"concern_code": "WriteConcernError.Code", "write_code": "WriteError.Code",
	} {
		list = append(list, sets.Field(name, pkg+path))
	}
	return list
}
