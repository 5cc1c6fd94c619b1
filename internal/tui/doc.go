// Package tui implements the live view of a program: a full-screen interface that is controlled with keys. It also
// prints the same information as text or JSON lines for scripts.
//
// The central type is [Model]. It consists of a state, the method Update, which handles keys, resizing and new pictures,
// and the method View, which renders a frame of any size as text. A Model does not access the terminal, so tests can send
// keys and read frames. [Run] runs a Model in a terminal with Bubble Tea. [Print] writes pictures for scripts.
//
// # Source of the data
//
// Whenever the Model requests it, package live takes a picture of the program: the changes since the previous picture,
// and the additional data that the current page needs. The goroutine that adds events from the program never waits for
// the terminal. The cost of a frame depends on what is on the screen, because lists are limited to a maximum number of
// goroutines.
//
// # Pages
//
// The five views (by creation site, by state, contention, goroutines, scheduler latency) are pages. Opening a row shows
// another page on top: the goroutines of a site, then a single goroutine. Each page is implemented in one file, with its
// columns, its sort orders, and the page that it opens.
//
// Names and reasons come from a program that may be hostile. All text is escaped by the function safe, which spells out
// characters that a terminal would interpret or whose width is unknown. Every line is cut to the width of the screen.
package tui
