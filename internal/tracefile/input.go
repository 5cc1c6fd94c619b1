package tracefile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Stdin is the name that stands for standard input.
const Stdin = "-"

// An Input is a trace file that is being read, or standard input.
type Input struct {
	Name string // for messages: the path, or "standard input"
	// MaxMemory bounds the memory that reading events takes, in bytes; 0 means trace.DefaultMaxMemory.
	MaxMemory int64

	path string
	file *os.File // nil for standard input
	r    *bufio.Reader
	read int64 // bytes, those included that wait in r
}

// Form is how a file has a trace.
type Form int

// The forms.
const (
	Other Form = iota // no trace at all
	Wire              // as the runtime writes it
	Text              // as the verb text writes it
)

// Open opens a file for reading; - is stdin. The context ends the wait for a pipe or a terminal, here and in Read. What cannot
// be a trace, because it is a directory or empty, is an error.
func Open(ctx context.Context, path string, stdin io.Reader) (*Input, error) {
	in := &Input{Name: path, path: path}
	if path == Stdin {
		in.Name = "standard input"
		if f, ok := stdin.(*os.File); ok {
			in.file = f // so that an output can be compared with it
		}
		in.r = bufio.NewReaderSize(&counted{newWaiting(ctx, stdin), &in.read}, inputSize)
		return in, in.check()
	}
	f, err := openFile(ctx, path)
	if err != nil {
		return nil, plainError(err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is a directory, not a trace", path)
	}
	in.file = f
	var r io.Reader = f
	if err != nil || !info.Mode().IsRegular() {
		r = newWaiting(ctx, f)
	}
	in.r = bufio.NewReaderSize(&counted{r, &in.read}, inputSize)
	if err := in.check(); err != nil {
		f.Close()
		return nil, err
	}
	return in, nil
}

const inputSize = 64 << 10

// plainError takes the operation out of an error of package os: "x: no such file or directory".
func plainError(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n *int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	*c.n += int64(n)
	return n, err
}

// check refuses an input that has nothing, or cannot be read.
func (in *Input) check() error {
	switch _, err := in.r.Peek(1); err {
	case nil:
		return nil
	case io.EOF:
		return fmt.Errorf("%s is empty, not a trace", in.Name)
	default:
		return fmt.Errorf("reading %s: %w", in.Name, plainCause(err))
	}
}

// plainCause returns the cause of an error of package os, for messages that name the file already.
func plainCause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Read implements io.Reader.
func (in *Input) Read(b []byte) (int, error) { return in.r.Read(b) }

// Bytes returns how much was read.
func (in *Input) Bytes() int64 { return in.read }

// Close closes the file. Standard input stays open.
func (in *Input) Close() error {
	if in.file == nil || in.path == Stdin {
		return nil
	}
	return in.file.Close()
}

// What the forms begin with.
const (
	wireBegin = "go 1."
	textBegin = "Trace Go1."
	gzipBegin = "\x1f\x8b"
)

// Form returns what the input has, by its first bytes. Blank lines and comments may come before a text trace.
func (in *Input) Form() Form {
	head, _ := in.r.Peek(4 << 10) // what an error leaves is enough, or too little
	switch {
	case bytes.HasPrefix(head, []byte(wireBegin)):
		return Wire
	case bytes.HasPrefix(textHeader(head), []byte(textBegin)):
		return Text
	}
	return Other
}

// textHeader returns what follows blank lines and comments.
func textHeader(head []byte) []byte {
	for {
		head = bytes.TrimLeft(head, " \t\r\n\v\f")
		if len(head) == 0 || head[0] != '#' {
			return head
		}
		end := bytes.IndexByte(head, '\n')
		if end < 0 {
			return nil
		}
		head = head[end:]
	}
}

// NeedWire returns the error for an input that is no trace in the wire format.
func (in *Input) NeedWire() error {
	switch in.Form() {
	case Wire:
		return nil
	case Text:
		return fmt.Errorf("%s is a text trace; loupe tracefile wire converts it to a trace", in.Name)
	}
	return in.notTrace(wireBegin)
}

// NeedText returns the error for an input that is no trace in the text format.
func (in *Input) NeedText() error {
	switch in.Form() {
	case Text:
		return nil
	case Wire:
		return fmt.Errorf("%s is already in the wire format", in.Name)
	}
	return in.notTrace(textBegin)
}

func (in *Input) notTrace(begin string) error {
	head, _ := in.r.Peek(len(gzipBegin))
	if string(head) == gzipBegin {
		return fmt.Errorf("%s is compressed with gzip, like a profile; to decompress a trace use gzip -d", in.Name)
	}
	return fmt.Errorf("%s is not a Go execution trace: it does not start with %q", in.Name, begin)
}

// IsFile reports whether the input is the file at a path.
func (in *Input) IsFile(path string) bool {
	if in.file == nil {
		return false
	}
	mine, err := in.file.Stat()
	if err != nil {
		return false
	}
	other, err := os.Stat(path)
	return err == nil && mine.Mode().IsRegular() && os.SameFile(mine, other)
}
