//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* All probes as machine code, except those that only the kernel can run (process.c). */
#include "runtime.h"
#include "native.h"
#include "go.h"

#include "sched.c"
#include "syscall.c"
#include "chan.c"
#include "gc.c"
