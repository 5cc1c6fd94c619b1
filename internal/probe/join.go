package probe

import (
	"errors"
	"strings"
)

// joined is several errors as one of one line: errors.Join writes a line for each.
type joined struct{ error }

func (j joined) Error() string { return strings.ReplaceAll(j.error.Error(), "\n", "; ") }
func (j joined) Unwrap() error { return j.error }

// join is errors.Join with a message of one line.
func join(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return joined{err}
	}
	return nil
}
