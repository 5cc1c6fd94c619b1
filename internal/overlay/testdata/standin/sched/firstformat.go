package main

import "encoding/binary"

// firstFormat counts the events of an execution trace of Go 1.21, of a program that makes no logs. It reports whether the trace is one.
func firstFormat(data []byte) (s sums, ok bool) {
	const (
		header = "go 1.21 trace\x00\x00\x00"
		text   = 37
	)
	if len(data) < len(header) || string(data[:len(header)]) != header {
		return s, false
	}
	data = data[len(header):]
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		check(n > 0, "the trace ends", len(data))
		data = data[n:]
		return v
	}
	for len(data) > 0 {
		event, count := data[0]&63, data[0]>>6
		data = data[1:]
		if event <= lastEvent {
			s.events[event]++
		}
		switch {
		case event == text:
			number()
			data = data[number():]
		case count == 3: // or more; the size follows
			size := number()
			data = data[size:]
		default: // the time, and count numbers
			var args [3]uint64
			for i := byte(0); i <= count; i++ {
				args[i] = number()
			}
			if event == sweepDone {
				s.swept += args[1]
				s.reclaimed += args[2]
			}
		}
	}
	return s, true
}
