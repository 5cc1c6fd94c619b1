// Command tracefile compares what Loupe does with execution trace files with what the Go toolchain does with them, on the
// same files in one run.
//
//	go run ./bench/tracefile [-rounds 7] [-record 800] raw|stat [FILE ...]
//
// raw compares package trace/raw with the toolchain's internal/trace/raw: events read from the wire format, wire made
// text, and text made wire. Each side is a process with one processor (GOMAXPROCS=1) that has the input in memory and
// throws the output away, through a buffer of 256 KiB. They take turns. Times are medians of processor time, which other
// load on the machine hardly changes. The toolchain's package is compiled from the toolchain's own source, by the
// toolchain that runs this command; nothing of it is copied.
//
// stat measures what reading a whole file takes, from the file: loupe tracefile stat and validate, package trace alone, and
// golang.org/x/exp/trace, all with one processor. Times are medians of processor time.
//
// Without FILE it records a trace of the program that the tests of trace/raw record.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
)

func main() {
	rounds := flag.Int("rounds", 7, "measurements of each way")
	record := flag.Int("record", 800, "rounds of work in the trace that is recorded without FILE; 800 make some 30 MB")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: tracefile [flags] raw|stat [FILE ...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	table := flag.Arg(0)
	if table != "raw" && table != "stat" || *rounds < 1 || *record < 1 {
		flag.Usage()
		os.Exit(2)
	}
	runtime.GOMAXPROCS(1)
	if err := run(table, *rounds, *record, flag.Args()[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(table string, rounds, record int, files []string) error {
	dir, err := os.MkdirTemp("", "loupe-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if len(files) == 0 {
		file, err := recordTrace(dir, record)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	measure := compareStat
	if table == "raw" {
		helper, err := buildToolchain(dir)
		if err != nil {
			return err
		}
		measure = func(file string, rounds int) error { return compare(dir, helper, file, rounds) }
	}
	for _, file := range files {
		if err := measure(file, rounds); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}
