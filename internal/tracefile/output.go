package tracefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Stdout is the name that stands for standard output.
const Stdout = "-"

// An Output is a file that is being written, or standard output. It gets its name when it is complete: until then what is
// written is in a file beside it, so that a failure leaves what was there before, and nothing else. What is no regular
// file, such as /dev/null or a pipe, is written to at once.
type Output struct {
	Name string // for messages: the path, or "standard output"

	w       *bufio.Writer
	file    *os.File // nil for standard output
	target  string   // what the file is renamed to; empty when it is not
	written int64
	err     error // of the first write that failed
}

// Create begins an output. Nothing is there before Commit, which or Discard must follow.
func Create(path string, stdout io.Writer) (*Output, error) {
	o := &Output{Name: path}
	switch {
	case path == Stdout:
		o.Name = "standard output"
		o.w = bufio.NewWriterSize(counting{stdout, o}, outputSize)
		return o, nil
	case path == "":
		return nil, errors.New("no file to write to")
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case err == nil && !info.Mode().IsRegular():
		o.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	case err == nil:
		if o.target, err = filepath.EvalSymlinks(path); err == nil {
			o.file, err = createBeside(o.target, info.Mode().Perm())
		}
	case errors.Is(err, os.ErrNotExist):
		o.target = path
		o.file, err = createBeside(path, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", path, plainCause(err))
	}
	o.w = bufio.NewWriterSize(counting{o.file, o}, outputSize)
	return o, nil
}

const outputSize = 128 << 10

// createBeside makes a new file in the directory of another one.
func createBeside(path string, perm os.FileMode) (*os.File, error) {
	for n := 0; ; n++ {
		f, err := os.OpenFile(fmt.Sprintf("%s.%d-%d.part", path, os.Getpid(), n), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, os.ErrExist) || n == 100 {
			return f, err
		}
	}
}

// counting counts what is written and keeps the first error.
type counting struct {
	w io.Writer
	o *Output
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.o.written += int64(n)
	if err != nil && c.o.err == nil {
		c.o.err = fmt.Errorf("writing %s: %w", c.o.Name, plainCause(err))
	}
	return n, err
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) { return o.w.Write(b) }

// Err returns the first error of writing, which names the file.
func (o *Output) Err() error { return o.err }

// Bytes returns how much has been written after Commit.
func (o *Output) Bytes() int64 { return o.written }

// Commit completes the file. After an error it is not there.
func (o *Output) Commit() error {
	if o.w.Flush(); o.err != nil {
		o.Discard()
		return o.err
	}
	if o.file == nil {
		return nil
	}
	err := o.file.Close()
	if err == nil && o.target != "" {
		err = os.Rename(o.file.Name(), o.target)
	}
	if err != nil {
		o.remove()
		return fmt.Errorf("writing %s: %w", o.Name, plainCause(err))
	}
	return nil
}

// Discard removes what was written, but for what went to standard output or is no regular file.
func (o *Output) Discard() {
	if o.file != nil {
		o.file.Close()
		o.remove()
	}
}

func (o *Output) remove() {
	if o.target != "" {
		os.Remove(o.file.Name())
	}
}
