// Package term writes to terminals. It escapes untrusted text, adds colors if the terminal supports them and the user
// wants them, and shows the progress of long operations.
//
// The central type is [Style]. The package does not depend on what is written; packages report and cli determine that.
package term
