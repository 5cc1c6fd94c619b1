package inject

import "golang.org/x/sys/unix"

const mkdir = unix.SYS_MKDIR
