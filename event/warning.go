package event

import "fmt"

// A Warning reports that an observation is less complete, less accurate or more expensive than usual, and why. It is an
// error that does not end the observation: errors.Is(w, WarnMissing) reports whether it is of a kind.
type Warning struct {
	Kind WarningKind
	Text string // one line for the user
}

// A WarningKind is what a [Warning] affects.
type WarningKind string

// The kinds of warnings.
const (
	WarnMissing WarningKind = "events are missing"        // events of some kind, or of some code, are not reported
	WarnEngine  WarningKind = "other engine"              // the preferred engine is unavailable, and another one is used
	WarnTimes   WarningKind = "times are less accurate"   // of events, or processor times
	WarnState   WarningKind = "states are uncertain"      // of goroutines
	WarnNames   WarningKind = "names are missing"         // of functions, or labels of goroutines
	WarnLayout  WarningKind = "layout of another release" // the release of Go is unknown; the nearest layout fits
	WarnCost    WarningKind = "observing costs more"      // attaching, detaching or events cost more than documented
)

// Warnf returns a Warning with a formatted text.
func Warnf(kind WarningKind, format string, args ...any) Warning {
	return Warning{kind, fmt.Sprintf(format, args...)}
}

// Error returns the text.
func (w Warning) Error() string { return w.Text }

// Is reports whether target is the kind of the warning.
func (w Warning) Is(target error) bool { return target == w.Kind }

// Error returns the kind in words.
func (k WarningKind) Error() string { return string(k) }

// WarningTexts returns the texts of warnings.
func WarningTexts(warnings []Warning) []string {
	var texts []string
	for _, w := range warnings {
		texts = append(texts, w.Text)
	}
	return texts
}
