//go:build !loupe_glti

package glti_test

import (
	"fmt"

	"github.com/loupe-go/loupe/glti"
)

func ExampleCapabilities() {
	for _, c := range glti.Capabilities() {
		if c.Method == "HandleRaw" || c.Method == "ResolveIface" {
			fmt.Println(c)
		}
	}
	// Output:
	// ResolveIface: available
	// HandleRaw (class B): unavailable: the scheduler has no hooks
}
