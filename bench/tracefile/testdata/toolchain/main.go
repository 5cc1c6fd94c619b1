// Command loupe-tracefile measures the Go toolchain's package internal/trace/raw. It is built within the Go tree.
//
//	loupe-tracefile read|totext|towire FILE
//
// For each line on its standard input, it performs the operation once. It prints the number of events and the processor
// time in nanoseconds, or `error` and the reason.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"internal/trace/raw"
	"io"
	"log"
	"os"
	"runtime"
	"syscall"
)

func main() {
	input, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	convert := map[string]func([]byte) (int64, error){"read": read, "totext": toText, "towire": toWire}[os.Args[1]]
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		runtime.GC()
		begin := processorTime()
		events, err := convert(input)
		took := processorTime() - begin
		if err != nil {
			fmt.Println("error", err)
		} else {
			fmt.Println(events, took)
		}
	}
}

// processorTime returns the time in nanoseconds that this process has used so far.
func processorTime() int64 {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return use.Utime.Nano() + use.Stime.Nano()
}

const bufferSize = 256 << 10

func read(wire []byte) (int64, error) {
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		return 0, err
	}
	return each(r.ReadEvent, func(raw.Event) error { return nil })
}

func toText(wire []byte) (int64, error) {
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(io.Discard, bufferSize)
	w, err := raw.NewTextWriter(out, r.Version())
	if err != nil {
		return 0, err
	}
	events, err := each(r.ReadEvent, w.WriteEvent)
	out.Flush()
	return events, err
}

func toWire(text []byte) (int64, error) {
	r, err := raw.NewTextReader(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(io.Discard, bufferSize)
	w, err := raw.NewWriter(out, r.Version())
	if err != nil {
		return 0, err
	}
	events, err := each(r.ReadEvent, w.WriteEvent)
	out.Flush()
	return events, err
}

// each calls f for all events that next returns.
func each(next func() (raw.Event, error), f func(raw.Event) error) (events int64, err error) {
	for {
		ev, err := next()
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		if err := f(ev); err != nil {
			return events, err
		}
		events++
	}
}
