package goproc

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/loupe-go/loupe/event"
)

// A ContentionProfile is the block or mutex profile that the runtime of a process keeps.
type ContentionProfile struct {
	Records []ContentionRecord

	// Rate is what the program has passed to SetBlockProfileRate, in ticks, or to SetMutexProfileFraction. 0 means that it
	// has disabled the profile, after it had been enabled.
	Rate int64

	// TicksPerSecond is the rate of the clock of the times as the runtime has measured it. It is 0 if the runtime has not, or
	// if that is unknown.
	TicksPerSecond int64

	Moments   int // number of moments that the records are of: more than 1 if they changed too fast to be read at once
	Unsettled int // records that are missing, because they changed too fast
}

// A ContentionRecord has the waits that one stack caused or suffered.
type ContentionRecord struct {
	Stack []event.StackFrame // the names of functions are those of the symbol table
	Count int64
	Ticks float64
}

// BlockProfile reads the block profile (runtime.BlockProfile). The error wraps ErrProfileOff if the program has not
// enabled it.
func (p *Process) BlockProfile() (*ContentionProfile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.profileLayout()
	if err != nil {
		return nil, err
	}
	return p.contention(l, contentionSource{name: "block", head: l.BlockBuckets, list: "bbuckets", typ: blockBucket,
		rate: l.BlockRate, variable: "blockprofilerate", setter: "SetBlockProfileRate", scale: func(int64) float64 { return 1 }, least: 1})
}

// MutexProfile reads the mutex profile (runtime.MutexProfile). The error wraps ErrProfileOff if the program has not
// enabled it.
func (p *Process) MutexProfile() (*ContentionProfile, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.profileLayout()
	if err != nil {
		return nil, err
	}
	scale := func(rate int64) float64 { return float64(rate) }
	if l.rules.scaledMutex {
		scale = func(int64) float64 { return 1 }
	}
	return p.contention(l, contentionSource{name: "mutex", head: l.MutexBuckets, list: "xbuckets", typ: mutexBucket,
		rate: l.MutexFraction, variable: "mutexprofilerate", setter: "SetMutexProfileFraction", scale: scale})
}

// contentionSource describes a profile of type block or mutex.
type contentionSource struct {
	name     string
	head     uint64 // address of the head of its list
	list     string // name of this variable
	typ      uint64
	rate     uint64 // address of its rate
	variable string
	setter   string                   // the function that enables it
	scale    func(rate int64) float64 // the factor of the values
	least    int64                    // the smallest count
}

func (p *Process) contention(l *profileLayout, src contentionSource) (*ContentionProfile, error) {
	for name, addr := range map[string]uint64{src.list: src.head, src.variable: src.rate, "profBlockLock": l.BlockLock} {
		if err := p.known(name, addr); err != nil {
			return nil, err
		}
	}
	rate, err := p.mem.u64(src.rate)
	if err != nil {
		return nil, err
	}
	buckets, err := p.buckets(l, src.head, src.typ, l.blockSize)
	if err != nil {
		return nil, err
	}
	prof := &ContentionProfile{Rate: int64(rate)}
	factor := src.scale(prof.Rate)
	if prof.Rate <= 0 && (len(buckets) == 0 || factor == 0) {
		return nil, fmt.Errorf("process %d: %w: it has not enabled the %s profile with runtime.%s", p.pid, ErrProfileOff, src.name, src.setter)
	}
	if l.Ticks != 0 {
		ticks, err := p.mem.u64(l.Ticks + uint64(l.ticks))
		if err != nil {
			return nil, err
		}
		prof.TicksPerSecond = int64(ticks)
	}
	s := p.newSettler(l.BlockLock+uint64(l.key), 0, l.blockSize)
	err = s.each(buckets, func(b *bucket, record []byte, _ uint64) error {
		count, ticks := l.decodeBlock(record)
		if !(count >= 0 && count < 1<<62) || ticks < 0 {
			return p.profileErrorf("impossible values: %g waits, ticks %d", count, ticks)
		}
		prof.Records = append(prof.Records, ContentionRecord{Stack: p.symbols.recordedStack(b.stack, &l.rules),
			Count: int64(float64(max(int64(count), src.least)) * factor), Ticks: float64(ticks) * factor})
		return nil
	})
	prof.Moments, prof.Unsettled = s.moments, s.unsettled
	return prof, err
}

// decodeBlock decodes a runtime.blockRecord.
func (l *profileLayout) decodeBlock(record []byte) (count float64, ticks int64) {
	word := binary.LittleEndian.Uint64(record[l.count:])
	if count = float64(int64(word)); l.rules.floatCount {
		count = math.Float64frombits(word)
	}
	return count, int64(binary.LittleEndian.Uint64(record[l.cycles:]))
}
