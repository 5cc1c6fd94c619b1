package inline

import (
	"testing"

	"github.com/loupe-go/loupe/internal/ptrace"
)

// TestRestored takes a jump away from where other tracers have put breakpoints, or removed them.
func TestRestored(t *testing.T) {
	check := ptrace.Edit{Old: []byte("\x0f\x86\x10\x02\x00\x00"), New: []byte("\x0f\x81\x01\x02\x03\x04")}
	end := ptrace.Edit{Old: []byte("\x48\x83\xc4\x30\x5d"), New: []byte("\xe9\x01\x02\x03\x04")}
	padded := ptrace.Edit{Old: []byte("\x49\xc7\x46\x10\xde\xfa\xff\xff"), New: []byte("\x49\xe9\x01\x02\x03\x04\xcc\xcc")}
	arm := ptrace.Edit{Old: []byte("\xfd\x83\x1f\xf8"), New: []byte("\x00\x00\x00\x14")}
	for _, c := range []struct {
		name, arch string
		edit       ptrace.Edit
		now, want  string // want is empty when that is refused
		breakpoint bool
	}{
		{"as it was made", "amd64", check, "\x0f\x81\x01\x02\x03\x04", "\x0f\x86\x10\x02\x00\x00", false},
		{"not made", "amd64", check, "\x0f\x86\x10\x02\x00\x00", "\x0f\x86\x10\x02\x00\x00", false},
		{"breakpoint", "amd64", check, "\xcc\x81\x01\x02\x03\x04", "\xcc\x86\x10\x02\x00\x00", true},
		{"breakpoint on the file's code", "amd64", check, "\xcc\x86\x10\x02\x00\x00", "\xcc\x86\x10\x02\x00\x00", true},
		{"breakpoint that was removed", "amd64", end, "\x48\x01\x02\x03\x04", "\x48\x83\xc4\x30\x5d", false},
		{"breakpoint within", "amd64", end, "\xe9\x01\x02\x03\xcc", "\x48\x83\xc4\x30\xcc", true},
		{"padding", "amd64", padded, "\x49\xe9\x01\x02\x03\x04\xcc\xcc", "\x49\xc7\x46\x10\xde\xfa\xff\xff", false},
		{"another jump", "amd64", check, "\xe9\x09\x09\x09\x09\xcc", "", false},
		{"as it was made", "arm64", arm, "\x00\x00\x00\x14", "\xfd\x83\x1f\xf8", false},
		{"breakpoint", "arm64", arm, "\xa0\x00\x20\xd4", "\xa0\x00\x20\xd4", true},
		{"another jump", "arm64", arm, "\x00\x00\x00\x17", "", false},
	} {
		got, breakpoint, ok := restored(c.arch, c.edit, []byte(c.now))
		if string(got) != c.want || breakpoint != c.breakpoint || ok != (c.want != "") {
			t.Errorf("%s %s: %x, %v, %v, want %x, %v", c.arch, c.name, got, breakpoint, ok, c.want, c.breakpoint)
		}
	}
}
