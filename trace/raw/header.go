package raw

import "fmt"

// headerSize is the size of the header of a wire trace: "go 1.22 trace" and three zeros.
const headerSize = 16

const headerBegin, headerEnd = "go 1.", " trace\x00\x00\x00"

// parseHeader returns the version that the header of a wire trace tells. h may be shorter than a header.
func parseHeader(h []byte) (Version, error) {
	v, n := 0, len(headerBegin)
	if len(h) < headerSize || string(h[:n]) != headerBegin {
		return 0, fmt.Errorf("%w: no header", ErrHeader)
	}
	for ; n < len(headerBegin)+2 && '0' <= h[n] && h[n] <= '9'; n++ {
		v = v*10 + int(h[n]-'0')
	}
	// A version of one digit is followed by four zeros.
	if n == len(headerBegin) || string(h[n:min(n+len(headerEnd), headerSize)]) != headerEnd {
		return 0, fmt.Errorf("%w: malformed header", ErrHeader)
	}
	if !Version(v).Valid() {
		return 0, fmt.Errorf("trace of Go 1.%d: %w", v, ErrVersion)
	}
	return Version(v), nil
}

// appendHeader appends the header of a wire trace.
func appendHeader(b []byte, v Version) []byte {
	b = append(b, headerBegin...)
	b = append(b, '0'+byte(v)/10, '0'+byte(v)%10)
	return append(b, headerEnd...)
}
