package tracefile

import "github.com/loupe-go/loupe/internal/output"

// Stdout is the name that stands for standard output.
const Stdout = output.Stdout

// Output is a file that is written.
type Output = output.File
