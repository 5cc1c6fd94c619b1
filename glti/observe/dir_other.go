//go:build !unix

package observe

import "io/fs"

// private is true: the directory for temporary files is that of the user, and its access control is inherited.
func private(fs.FileInfo) bool { return true }

// refused reports whether nobody listens on a socket: Windows has no other reason why connecting to an existing one fails.
func refused(err error) bool { return err != nil }
