package serve

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/loupe-go/loupe/internal/testcmd" // the same environment however the tests are started
)

// TestMain checks that no goroutine remains. Package net/http closes a connection half a second after it has refused a request.
func TestMain(m *testing.M) {
	status := m.Run()
	for try := 0; status == 0; try++ {
		err := goleak.Find()
		if err == nil {
			break
		}
		if try == 10 {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	os.Exit(status)
}
