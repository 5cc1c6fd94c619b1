package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// A command answers one line of the protocol. It returns the answer without
// its line end; args are the words after the command's name.
type command func(args []string) string

// started is what the monotonic times in answers are counted from.
var started = time.Now()

// monotonic returns the nanoseconds since the program started.
func monotonic() int64 { return time.Since(started).Nanoseconds() }

// serve speaks the protocol on standard input and output until `quit` or the
// end of the input, then ends the program. settled says that every goroutine
// comes to rest, which is waited for before `ready`.
func serve(settled bool, more map[string]command) {
	requests := make(chan struct{}, 1)
	go dumper(requests)
	if settled {
		settle()
	}
	reply(fmt.Sprintf("ready %d", os.Getpid()))
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		words := strings.Fields(line)
		if err != nil {
			os.Exit(0)
		}
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "quit":
			os.Exit(0)
		case "stacks":
			// The dumper answers: this goroutine has to be back in its
			// read by then, or the dump would show it running.
			requests <- struct{}{}
		case "version":
			reply(runtime.Version())
		case "num":
			reply(fmt.Sprint(runtime.NumGoroutine()))
		case "gc":
			begin := time.Now().UnixNano()
			runtime.GC()
			runtime.GC()
			reply(fmt.Sprintf("gc %d %d", begin, time.Now().UnixNano()))
		default:
			if answer := more[words[0]]; answer != nil {
				reply(answer(words[1:]))
			} else {
				reply("error unknown command " + words[0])
			}
		}
	}
}

// reply writes one line in one write.
func reply(line string) { os.Stdout.WriteString(line + "\n") }

// dumper prints the stacks of all goroutines for each request.
func dumper(requests <-chan struct{}) {
	for range requests {
		text := allStacks()
		for !mainRests(text) {
			time.Sleep(time.Millisecond)
			text = allStacks()
		}
		reply("<<<\n" + string(text) + "\n>>>")
	}
}

// allStacks returns what runtime.Stack prints for all goroutines, uncut.
func allStacks() []byte {
	buf := make([]byte, 1<<18)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			return buf[:n]
		}
		buf = make([]byte, 4*len(buf))
	}
}

// mainRests says whether the main goroutine waits for input in a dump.
func mainRests(text []byte) bool {
	for _, g := range bytes.Split(text, []byte("\n\n")) {
		if bytes.HasPrefix(g, []byte("goroutine 1 [")) {
			return !moves(g) && bytes.Contains(g, []byte("os.(*File).Read("))
		}
	}
	return false
}

// moves says whether a goroutine of a dump is running or about to.
func moves(g []byte) bool {
	header := g
	if i := bytes.IndexByte(g, '\n'); i >= 0 {
		header = g[:i]
	}
	return bytes.Contains(header, []byte("[run"))
}

// settle returns when no goroutine but the caller's moves any more.
func settle() {
	var before []byte
	for {
		text := allStacks()
		// The first goroutine of a dump is the one that took it.
		if i := bytes.Index(text, []byte("\n\n")); i >= 0 {
			text = text[i+2:]
		}
		still := true
		for _, g := range bytes.Split(text, []byte("\n\n")) {
			still = still && !moves(g)
		}
		if still && bytes.Equal(text, before) {
			return
		}
		before = append(before[:0], text...)
		time.Sleep(20 * time.Millisecond)
	}
}
