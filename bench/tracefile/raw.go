package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/loupe-go/loupe/bench/internal/program"
	"github.com/loupe-go/loupe/trace/raw"
)

// A direction is what is done with a trace.
type direction struct {
	name     string // for people
	toolName string // for the toolchain's side
	fromText bool   // the input is text
	convert  func(input []byte) (events int64, err error)
}

var directions = []direction{
	{"read wire", "read", false, readWire},
	{"wire to text", "totext", false, func(wire []byte) (int64, error) { return wireToText(wire, io.Discard) }},
	{"text to wire", "towire", true, textToWire},
}

func readWire(wire []byte) (events int64, err error) {
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		return 0, err
	}
	var ev raw.Event
	for {
		if err := r.ReadEvent(&ev); err != nil {
			if err == io.EOF {
				err = nil
			}
			return events, err
		}
		events++
	}
}

func wireToText(wire []byte, to io.Writer) (events int64, err error) {
	r, err := raw.NewReader(bytes.NewReader(wire))
	if err != nil {
		return 0, err
	}
	w, err := raw.NewTextWriter(to, r.Version())
	if err != nil {
		return 0, err
	}
	if events, err = raw.Copy(w, r); err != nil {
		return events, err
	}
	return events, w.Close()
}

func textToWire(text []byte) (events int64, err error) {
	r, err := raw.NewTextReader(bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	w, err := raw.NewWriter(io.Discard, r.Version())
	if err != nil {
		return 0, err
	}
	if events, err = raw.Copy(w, r); err != nil {
		return events, err
	}
	return events, w.Close()
}

// compare measures a file in all directions and prints a table.
func compare(dir, helper, file string, rounds int) error {
	wire, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	events, err := wireToText(wire, &text)
	if err != nil {
		return err
	}
	textFile := filepath.Join(dir, "trace.txt")
	if err := os.WriteFile(textFile, text.Bytes(), 0o666); err != nil {
		return err
	}
	fmt.Printf("%s: %d events, %.1f MB of wire, %.1f MB of text\n\n", filepath.Base(file), events, float64(len(wire))/1e6, float64(text.Len())/1e6)
	fmt.Printf("| direction | loupe, MB/s | ns an event | %s, MB/s | ns an event | ratio |\n|---|---|---|---|---|---|\n", runtime.Version())
	for _, d := range directions {
		input, path := wire, file
		if d.fromText {
			input, path = text.Bytes(), textFile
		}
		ours, theirs, err := d.measure(helper, input, path, events, rounds)
		if err != nil {
			return err
		}
		speed := func(t time.Duration) float64 { return float64(len(input)) / 1e6 / t.Seconds() }
		each := func(t time.Duration) float64 { return float64(t.Nanoseconds()) / float64(events) }
		fmt.Printf("| %s | %.0f | %.1f | ", d.name, speed(ours), each(ours))
		if theirs == 0 {
			fmt.Printf("cannot | | |\n")
			continue
		}
		fmt.Printf("%.1f | %.0f | %.1f |\n", speed(theirs), each(theirs), float64(theirs)/float64(ours))
	}
	fmt.Println()
	return nil
}

// measure returns the median times of both sides for one direction. The toolchain's is 0 if it cannot do it, which is said
// on standard error.
func (d *direction) measure(helper string, input []byte, path string, events int64, rounds int) (ours, theirs time.Duration, err error) {
	tool, err := startToolchain(helper, d.toolName, path)
	if err != nil {
		return 0, 0, err
	}
	defer tool.stop()
	var our, their []time.Duration
	for range rounds + 1 { // the first one warms up
		runtime.GC()
		begin := processorTime()
		n, err := d.convert(input)
		took := processorTime() - begin
		if err != nil {
			return 0, 0, err
		}
		if n != events {
			return 0, 0, fmt.Errorf("%s: %d events, not %d", d.name, n, events)
		}
		our = append(our, took)
		if tool == nil {
			continue
		}
		n, took, err = tool.round()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: the toolchain's package: %v\n", d.name, err)
			tool.stop()
			tool = nil
			continue
		}
		if n != events {
			return 0, 0, fmt.Errorf("%s: the toolchain's package has %d events, not %d", d.name, n, events)
		}
		their = append(their, took)
	}
	if tool != nil {
		theirs = program.Median(their[1:])
	}
	return program.Median(our[1:]), theirs, nil
}

// processorTime returns the time that this process has used so far.
func processorTime() time.Duration {
	var use syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
