// Command tracefile compares Loupe with the Go toolchain in processing execution trace files. Both process the same
// files in one run.
//
//	go run ./bench/tracefile [-rounds 7] [-record 800] raw|stat [FILE ...]
//
// raw compares package trace/raw with the toolchain's internal/trace/raw: reading events in the wire format, converting
// wire format to text, and converting text to wire format. Each side runs in a process with one P (GOMAXPROCS=1). The
// process holds the input in memory and discards the output, through a buffer of 256 KiB. The two sides take turns.
// Results are medians of processor time, which other load on the machine hardly affects. The toolchain's package is
// compiled from the source of the toolchain that runs this command; the repository contains no copy of it.
//
// stat measures reading a whole file: loupe tracefile stat and validate, package trace alone, and
// golang.org/x/exp/trace, all with one P. Results are medians of processor time.
//
// Without FILE, the command records a trace of the program that the tests of trace/raw record.
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
	record := flag.Int("record", 800, "without FILE: rounds of work in the recorded trace; 800 rounds make about 30 MB")
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
