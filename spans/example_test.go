package spans_test

import (
	"fmt"
	"time"

	"github.com/loupe-go/loupe/spans"
)

// This example prints how a request spent its time, as attributes of its span.
func ExampleWork_Attributes() {
	work := spans.Work{
		Own:    spans.Times{spans.Running: 2 * time.Millisecond, spans.Mutex: 18 * time.Millisecond},
		Holder: spans.Holder{Wait: 12 * time.Millisecond, G: 34, Func: "main.(*ledger).audit"},
	}
	for _, kv := range work.Attributes() {
		fmt.Printf("%s = %s\n", kv.Key, kv.Value.String())
	}
	// Output:
	// loupe.go.running = 0.002
	// loupe.go.blocked.mutex = 0.018
	// loupe.go.lock.longest_wait = 0.012
	// loupe.go.lock.released_by.goroutine = 34
	// loupe.go.lock.released_by.function = main.(*ledger).audit
}
