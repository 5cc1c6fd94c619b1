// Package doctor determines what can be observed on this machine and in a target. For what cannot be observed, it gives
// the reason and a remedy.
//
// [Facts] are gathered by trying operations and by reading /proc and /sys. [Examine] derives a [checkup.Report] from them:
// a list of findings, each with its meaning and its remedy. The two steps are separate so that every result can be tested
// without a machine that has the problem. Package report prints the Report.
package doctor
