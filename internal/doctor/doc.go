// Package doctor finds out what can be observed on this machine and in a target, what not, why, and what to do about it.
//
// Facts are gathered by trying things out and reading /proc and /sys; Examine turns them into a Report of checks, each
// with its meaning and remedy. The two are apart so that every verdict can be tested without a machine that has the
// ailment. Package report writes the Report.
package doctor
