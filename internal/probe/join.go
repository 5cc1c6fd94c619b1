package probe

import (
	"errors"
	"strings"
)

// joined is like the result of errors.Join, but its message has one line instead of one line per error.
type joined struct{ error }

func (j joined) Error() string { return strings.ReplaceAll(j.error.Error(), "\n", "; ") }
func (j joined) Unwrap() error { return j.error }

// join is like errors.Join, with a message of one line.
func join(errs ...error) error {
	if err := errors.Join(errs...); err != nil {
		return joined{err}
	}
	return nil
}
