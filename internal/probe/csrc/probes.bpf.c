//go:build ignore

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* All probes as one eBPF object. */
#include "runtime.h"
#include "bpf.h"
#include "go.h"

#include "sched.c"
#include "syscall.c"
#include "chan.c"
#include "gc.c"
#include "process.c"
