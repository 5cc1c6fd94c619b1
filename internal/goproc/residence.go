package goproc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/event"
	"github.com/loupe-go/loupe/internal/procmap"
)

// MemoryOptions configures Process.Memory.
type MemoryOptions struct {
	// Parts explains the resident memory by mappings. The kernel then walks the page tables of the process, which takes about
	// a millisecond for each GiB, and holds the lock of its address space for parts of that time.
	Parts bool
}

// Memory reads the memory counters of the runtime and those of the kernel. The process is not stopped.
func (p *Process) Memory(ctx context.Context, opt MemoryOptions) (*event.Memory, error) {
	m := &event.Memory{}
	if err := p.alive(ctx); err != nil {
		return nil, err
	}
	if err := p.readHeap(ctx, m); err != nil {
		return nil, p.UnlessReplaced(err)
	}
	if err := p.readResident(&m.Process); err != nil {
		return nil, p.UnlessReplaced(err)
	}
	if opt.Parts {
		parts, err := p.memoryParts(m)
		if err != nil && !errors.Is(err, ErrPermission) {
			return nil, p.UnlessReplaced(err)
		}
		m.Process.Parts = parts
	}
	m.Process.CGroup = p.cgroupMemory()
	return m, p.UnlessReplaced(nil)
}

// readResident reads /proc/PID/status.
func (p *Process) readResident(m *event.ProcessMemory) error {
	b, err := p.dir.read("status")
	if err != nil {
		return err
	}
	return parseResident(b, m)
}

// parseResident reads the sizes in /proc/PID/status. A process that exits has no VmRSS.
func parseResident(b []byte, m *event.ProcessMemory) error {
	fields := map[string]*uint64{
		"VmRSS": &m.RSS, "RssAnon": &m.Anon, "RssFile": &m.File, "RssShmem": &m.Shmem, "VmSwap": &m.Swap, "VmHWM": &m.Peak,
	}
	found := false
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		to := fields[name]
		if to == nil {
			continue
		}
		n, err := kilobytes(value)
		if err != nil {
			return fmt.Errorf("malformed status line %q", line)
		}
		*to, found = n, found || name == "VmRSS"
	}
	if !found {
		return fmt.Errorf("%w: it has no memory", ErrExited)
	}
	return nil
}

// kilobytes parses a size such as "  1234 kB" to bytes.
func kilobytes(text string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 10, 54)
	return n << 10, err
}

// maxArenas bounds the list of arenas: 64 TiB of heap.
const maxArenas = 1 << 20

// readArenas returns the start addresses of the heap's arenas, sorted.
func (p *Process) readArenas(b *heapBooks) ([]uint64, error) {
	var header [16]byte
	if err := p.mem.read(header[:], b.arenas); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(header[8:])
	if n > maxArenas {
		return nil, fmt.Errorf("process %d: %w: the list of arenas has length %d", p.pid, ErrLayout, n)
	}
	list := make([]byte, 8*n)
	if err := p.mem.read(list, binary.LittleEndian.Uint64(header[:])); err != nil {
		return nil, err
	}
	starts := words(list)
	for i, index := range starts {
		starts[i] = b.arenaBase + index*b.arenaBytes
	}
	slices.Sort(starts)
	return starts, nil
}

// memoryParts explains the resident memory.
func (p *Process) memoryParts(m *event.Memory) (*event.MemoryParts, error) {
	b, err := p.heapBooks()
	if err != nil {
		return nil, err
	}
	arenas, err := p.readArenas(b)
	if err != nil {
		return nil, err
	}
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid))
	s := sorter{arenas: arenas, arenaBytes: b.arenaBytes, exe: exe}
	f, err := p.dir.root.Open("smaps")
	if err != nil {
		return nil, procError(p.pid, err)
	}
	defer f.Close()
	if err := eachResident(bufio.NewReader(f), s.add); err != nil {
		return nil, procError(p.pid, err)
	}
	return s.parts(m.Runtime.Metadata()), nil
}

// eachResident calls yield with the mappings of /proc/PID/smaps.
func eachResident(r *bufio.Reader, yield func(m procmap.Mapping, rss uint64)) error {
	var at procmap.Mapping
	var rss uint64
	started := false
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("malformed smaps: a line of more than %d bytes", len(line))
		}
		if err != nil {
			if len(line) > 0 {
				return fmt.Errorf("malformed smaps: it ends with %q", line)
			}
			if started {
				yield(at, rss)
			}
			return endOfFile(err)
		}
		word, rest, _ := strings.Cut(string(line), " ")
		switch {
		case word == "Rss:":
			if rss, err = kilobytes(rest); err != nil {
				return fmt.Errorf("malformed smaps line %q", line)
			}
		case !strings.HasSuffix(word, ":"):
			if started {
				yield(at, rss)
			}
			list, err := procmap.Parse(line)
			if err != nil {
				return err
			}
			at, rss, started = list[0], 0, true
		}
	}
}
