// Package insntruth tests package insn with executables that the toolchains of
// all releases build, and compares it with other disassemblers. These tests are
// in a separate package so that the module of package insn does not depend on
// the packages that build executables and start commands.
package insntruth
