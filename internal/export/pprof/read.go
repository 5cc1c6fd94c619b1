package pprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/google/pprof/profile"

	"github.com/loupe-go/loupe/internal/english"
)

// Limits on a profile that is read.
const (
	MaxBytes  = 64 << 20 // size, after decompression
	maxMemory = 1 << 30  // estimated size in memory
)

// ReadFile reads a profile that this package or runtime/pprof has written. The contents of the file are not trusted: ReadFile
// reads at most [MaxBytes] after decompression, and rejects a profile that would take more than 1 GiB of memory. The error is one
// line that contains the path.
func ReadFile(path string) (*profile.Profile, error) {
	p, err := readFile(path)
	if err != nil {
		var file *fs.PathError
		if errors.As(err, &file) {
			err = file.Err
		}
		return nil, fmt.Errorf("cannot read profile %s: %w", path, err)
	}
	return p, nil
}

func readFile(path string) (*profile.Profile, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("is a directory")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	return Read(f)
}

// Read is like [ReadFile] for the contents of a file. The error does not contain a path.
func Read(r io.Reader) (*profile.Profile, error) {
	data, err := readAll(r)
	if errors.Is(err, errNotProfile) {
		return nil, err
	}
	if err == nil && len(data) >= 2 && data[0] == 0x1f && data[1] == 0x8b {
		data, err = decompress(data)
	}
	if err != nil {
		return nil, err
	}
	switch size, err := memoryOf(data); {
	case err != nil:
		return nil, err
	case size > maxMemory:
		return nil, fmt.Errorf("the profile is too large: it would take about %s of memory, the limit is %s", english.Size(size), english.Size(maxMemory))
	}
	p, err := profile.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNotProfile, err)
	}
	return p, nil
}

var (
	errNotProfile = errors.New("not a profile in pprof format, or damaged")
	errTooLarge   = fmt.Errorf("the profile is too large: the limit is %s after decompression", english.Size(MaxBytes))
)

// readAll reads at most MaxBytes.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > MaxBytes:
		return nil, errTooLarge
	}
	return data, nil
}

func decompress(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		data, err = readAll(r)
	}
	switch {
	case errors.Is(err, errTooLarge):
		return nil, err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: the compressed data is truncated", errNotProfile)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNotProfile, err)
	}
	return data, nil
}

// Estimates of the memory that parts of a profile take when package profile has parsed them, with its indexes.
const (
	recordMemory = 512 // a sample, label, location, line, function or mapping
	stringMemory = 64  // in addition to the text
	numberMemory = 32  // a location or a value of a sample
)

// Numbers of fields of the messages Profile, Sample and Location in profile.proto of github.com/google/pprof.
const (
	fieldSample   = 2
	fieldLocation = 4
	fieldStrings  = 6
	fieldComment  = 13

	fieldSampleLocations = 1
	fieldSampleValues    = 2
)

// memoryOf estimates the memory that a parsed profile takes, from its encoding as protocol buffer. Records of two bytes can take
// hundreds of bytes each, so a limit on the size of the encoding is not sufficient.
func memoryOf(data []byte) (int64, error) {
	total := int64(2 * len(data))
	err := fields(data, func(field int, payload []byte) error {
		total += recordMemory
		switch field {
		case fieldStrings:
			total += stringMemory - recordMemory
		case fieldComment:
			total += int64(len(payload)) * numberMemory
		case fieldSample, fieldLocation:
			return fields(payload, func(inner int, payload []byte) error {
				if field == fieldSample && (inner == fieldSampleLocations || inner == fieldSampleValues) {
					total += numberMemory * int64(1+len(payload))
				} else {
					total += recordMemory
				}
				return nil
			})
		}
		return nil
	})
	return total, err
}

// The wire types of protocol buffers.
const (
	wireVarint = 0
	wire64     = 1
	wireBytes  = 2
	wire32     = 5
)

// fields calls visit with each field of a message. The payload is nil unless the field is of the type bytes.
func fields(data []byte, visit func(field int, payload []byte) error) error {
	for len(data) > 0 {
		key, n := varint(data)
		if n == 0 {
			return fmt.Errorf("%w: a field is incomplete", errNotProfile)
		}
		data = data[n:]
		size, payload := 0, []byte(nil)
		switch key & 7 {
		case wireVarint:
			if _, size = varint(data); size == 0 {
				return fmt.Errorf("%w: a number is incomplete", errNotProfile)
			}
		case wire64:
			size = 8
		case wire32:
			size = 4
		case wireBytes:
			length, n := varint(data)
			if n == 0 || length > uint64(len(data)-n) {
				return fmt.Errorf("%w: a field exceeds the data", errNotProfile)
			}
			size = n + int(length)
			payload = data[n:size]
		default:
			return fmt.Errorf("%w: unknown wire type %d", errNotProfile, key&7)
		}
		if size > len(data) {
			return fmt.Errorf("%w: a field exceeds the data", errNotProfile)
		}
		data = data[size:]
		if err := visit(int(key>>3), payload); err != nil {
			return err
		}
	}
	return nil
}

// varint decodes a number and returns its size; 0 if it is incomplete.
func varint(data []byte) (v uint64, size int) {
	for i := 0; i < len(data) && i < 10; i++ {
		v |= uint64(data[i]&0x7f) << (7 * i)
		if data[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
