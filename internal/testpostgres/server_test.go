package testpostgres_test

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/testcmd"
	"github.com/loupe-go/loupe/internal/testpostgres"
)

// TestStatements executes statements and reads them from the log.
func TestStatements(t *testing.T) {
	s := testpostgres.Start(t)
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("requires psql (Debian package postgresql-client)")
	}
	for _, application := range []string{"one", "other"} {
		cmd := testcmd.Command(t, psql, "--no-psqlrc", s.DSN(application), "-c", "SELECT 1", "-c", "SELECT 'LOG:  statement: x'")
		if status, _, stderr := testcmd.Run(t, cmd); status != 0 {
			t.Fatal(stderr)
		}
	}
	if got, want := s.Statements("one"), []string{"SELECT 1", "SELECT 'LOG:  statement: x'"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
