package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe"
	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/report"
	"github.com/loupe-go/loupe/internal/term"
)

// memFlags are the flags of loupe mem.
type memFlags struct {
	target   targetFlags
	interval time.Duration
	duration time.Duration
	sizes    int
}

func (a *app) memCommand() *cobra.Command {
	var flags memFlags
	cmd := &cobra.Command{
		Use:                   "mem [flags] TARGET | -- PROG ARGS...",
		DisableFlagsInUseLine: true,
		Short:                 "Show the heap, the garbage collector and the resident memory of a program",
		Long: `Show the memory of a running Go program: the numbers of runtime.MemStats and
runtime/metrics, read from the memory of the program, which is not stopped, and
who explains its resident memory (RSS): the Go heap, the metadata of the Go
runtime, the executable, files, the C heap, other mappings. The limit is that of
the program's cgroup. What looks wrong is listed first, with its evidence.

The resident memory by mappings comes from /proc/PID/smaps. To write that file
the kernel walks the page tables of the program: about a millisecond for each
GiB, during which the program may wait to map memory.

With --interval, each reading is a line: RSS, allocated heap, heap goal, idle
heap that was not returned to the kernel, bytes and objects allocated per
second, garbage collections per second, and their share of the processor time in
percent. smaps is not read. A - is a number that is not known yet, or that the
Go release does not have.

With --json, the document has these fields (sizes in bytes, counters since the
program started; numbers that the Go release or the kernel does not have are
omitted): time, pid, goVersion, verdict, process (rss, anon, file, shmem, swap,
peak, parts), cgroup, heap, runtime, gc, bySize, reading, findings. With
--interval each reading is a document on one line, with rates since the line
before.

` + targetHelp,
		Example: `  loupe mem 1234
  loupe mem orders --sizes 0
  loupe mem orders --interval 2s --duration 1m
  loupe mem orders --json | jq '{rss: .process.rss, alloc: .heap.alloc, goal: .heap.goal}'
  loupe mem --after 5s -- ./orders -port 8080`,
		Args:              targetArgs(false),
		ValidArgsFunction: a.completeTarget,
	}
	flags.target.add(cmd)
	f := cmd.Flags()
	f.DurationVar(&flags.interval, "interval", 0, "print a line at this interval, such as 2s, until Ctrl-C or until the program exits; 0 prints one page")
	f.DurationVar(&flags.duration, "duration", 0, "with --interval: stop after this time, such as 1m; 0 means until Ctrl-C")
	f.IntVar(&flags.sizes, "sizes", 8, "list the `N` size classes with the most memory; 0 lists all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if problem := flags.problem(); problem != "" {
			return &usageError{problem: problem, command: cmd.CommandPath()}
		}
		return a.onTarget(cmd, args, &flags.target, func(ctx context.Context, pid int) error {
			return a.withProcess(pid, func(p process) error {
				if flags.interval > 0 {
					defer catchBrokenPipe()()
					err := a.memoryLines(ctx, p, &flags)
					if errors.Is(err, syscall.EPIPE) {
						return nil
					}
					return err
				}
				return a.memoryPage(ctx, p, &flags)
			})
		})
	}
	return cmd
}

// minMemInterval is the shortest interval of loupe mem.
const minMemInterval = 10 * time.Millisecond

// problem returns what is wrong with the flags, or the empty string.
func (f *memFlags) problem() string {
	switch {
	case f.interval < 0 || f.interval > 0 && f.interval < minMemInterval:
		return fmt.Sprintf("--interval %v is too short: the minimum is %v; 0 prints one page", f.interval, minMemInterval)
	case f.duration < 0:
		return fmt.Sprintf("--duration %v is negative; 0 means until Ctrl-C", f.duration)
	case f.duration > 0 && f.interval == 0:
		return "--duration requires --interval"
	case f.sizes < 0:
		return fmt.Sprintf("--sizes %d is negative; 0 lists all", f.sizes)
	}
	return ""
}

// memory reads the memory statistics of a process.
func (a *app) memory(ctx context.Context, p process, opt loupe.MemoryOptions) (*event.Memory, error) {
	m, err := p.Memory(ctx, opt)
	if err != nil && !errors.Is(err, context.Canceled) {
		err = fmt.Errorf("cannot read memory statistics: %w", &targetError{pid: p.Info().PID, err: err})
	}
	return m, err
}

// memoryPage prints one reading.
func (a *app) memoryPage(ctx context.Context, p process, flags *memFlags) error {
	m, err := a.memory(ctx, p, loupe.MemoryOptions{Parts: true})
	if err != nil {
		return err
	}
	page := report.Memory{Info: p.Info(), Memory: m, Sizes: flags.sizes}
	if a.json {
		return page.JSON(a.Stdout)
	}
	return page.Text(a.Stdout, a.style(), term.Width(a.Stdout))
}

// memoryLines prints a line for each reading until the duration is over, the context is done or the process has exited.
func (a *app) memoryLines(ctx context.Context, p process, flags *memFlags) error {
	if flags.duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, flags.duration)
		defer stop()
	}
	lines := report.NewMemoryLines(a.Stdout, a.style())
	tick := time.NewTicker(flags.interval)
	defer tick.Stop()
	info := p.Info()
	for before := (*event.Memory)(nil); ; {
		m, err := a.memory(ctx, p, loupe.MemoryOptions{})
		switch {
		case before != nil && ctx.Err() != nil:
			return nil
		case before != nil && errors.Is(err, loupe.ErrExited):
			a.note("process %d has exited", info.PID)
			return nil
		case err != nil:
			return err
		}
		if a.json {
			err = report.Memory{Info: info, Memory: m}.JSONLine(a.Stdout, before)
		} else {
			err = lines.Add(m)
		}
		if err != nil {
			return err
		}
		before = m
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
