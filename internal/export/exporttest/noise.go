package exporttest

import (
	"math/rand/v2"

	"github.com/loupe-go/loupe/event"
)

// Noise returns a stream without sense, as a broken or hostile source may make it: any kind, few goroutines and threads, times that
// jump, values of any size, texts that are meant to do harm.
func Noise(seed uint64, n int) []event.Event {
	rng := rand.New(rand.NewPCG(seed, 3))
	data := make([]byte, n*noiseSize)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return FromBytes(data)
}

// noiseSize is how many bytes make an event.
const noiseSize = 12

// FromBytes makes a stream of any bytes, for fuzz tests.
func FromBytes(data []byte) []event.Event {
	var list []event.Event
	now := Start
	for ; len(data) >= noiseSize; data = data[noiseSize:] {
		d := data[:noiseSize]
		text := func(i int) string { return HostileTexts[int(d[i])%len(HostileTexts)] }
		e := event.Event{Kind: event.Kind(d[0] % 34), G: uint64(d[1] % 8), TID: int32(d[2]%4) - 1, P: event.Proc(d[2] % 3), PID: 1234}
		switch d[3] % 8 {
		case 0:
			e.Time = now - int64(d[4])*100 // out of order
		case 1:
			e.Time = int64(d[4]) - 100 // before everything
		default:
			now += int64(d[4])
			e.Time = now
		}
		if d[3] == 255 {
			e.Time = 1<<63 - 1
		}
		e.By, e.Parent = uint64(d[5]%8), uint64(d[5]%8)
		e.Value = extremes[int(d[6])%len(extremes)]
		e.Reason, e.Text, e.TraceReason = text(7), text(8), text(9)
		e.State = states[int(d[10])%len(states)]
		e.Object = uint64(d[10]) << 56
		if d[11]&1 != 0 {
			e.Origin = &event.Origin{Start: event.Frame{Func: text(9)}}
		}
		if d[11]&2 != 0 {
			e.Stack = &event.Stack{Truncated: d[11]&4 != 0}
			for range d[11] >> 4 {
				e.Stack.Frames = append(e.Stack.Frames, event.Frame{Func: text(7), File: text(8), Line: int(d[10]) - 1})
			}
		}
		list = append(list, e)
	}
	return list
}

var extremes = []int64{0, 1, 2, 3, 4, -1, 1000, 1 << 31, 1 << 62, 1<<63 - 1, -1 << 63}

var states = []event.State{"", event.StateRunnable, event.StateRunning, event.StateSyscall, event.StateWaiting, event.StateLeaked,
	event.StateCopystack, event.StatePreempted, "no such state"}
