// Package flamegraph writes profiles as flame graphs: as one HTML page, and as folded stacks, the text that other tools read.
//
// [Write] writes the page. It contains its data, script and style, loads nothing, and its Content-Security-Policy forbids
// everything else. [WriteFolded] writes the text. Both take a profile of any type, and optionally an older profile to compare
// it with.
//
// The central type is tree: the stacks of a profile, merged by their outermost frames. Names of functions, files and labels
// are foreign text. The page receives them as JSON and shows them as text only.
package flamegraph
