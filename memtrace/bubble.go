package memtrace

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// mayBubble reports whether the program may have bubbles of testing/synctest. Only tests have them.
var mayBubble = sync.OnceValue(func() bool {
	info, ok := debug.ReadBuildInfo()
	return !ok || info.Path == "" || strings.HasSuffix(info.Path, ".test")
})

// inBubble reports whether the calling goroutine is in a bubble of testing/synctest. A goroutine that is started there belongs to
// the bubble, which does not end before it. Only goroutines of the bubble may close a channel that was made there. Stack traces
// are the only place where the runtime shows the bubble.
func inBubble() bool {
	if !mayBubble() {
		return false
	}
	b := make([]byte, 256)
	header, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("\n"))
	return bytes.Contains(header, []byte(", synctest bubble "))
}
