// Package codetruth tests package codepatch by running code: functions in
// assembler, and Go programs that real toolchains build. Their functions are
// patched, run, and compared with what they did before. These tests are in a
// separate package so that the module of package codepatch does not depend on
// the packages that build programs and start commands.
package codetruth
