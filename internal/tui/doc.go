// Package tui is the live view of a program: a full screen that a person reads and drives by keys, and the same pictures
// as text or JSON lines for scripts.
//
// The central type is Model: a state, Update, which takes keys, sizes and pictures in, and View, which draws a frame of
// any size as text. It knows no terminal, so a test can press keys and read frames. Run drives it in a terminal, by Bubble
// Tea; Print writes pictures for scripts.
//
// # Where the data comes from
//
// A Sampler looks at a Source, which is a *sched.Machine, whenever the Model asks for it, and makes a Picture: what has
// passed since the look before, and what the page on the screen needs beside that. Whoever takes events from the program
// (a Feed) never waits for the terminal, and a frame costs what is on the screen: a list holds a bounded number of
// goroutines, however many there are.
//
// # Pages
//
// The five views (by creation site, by state, contention, goroutines, scheduler latency) are pages. Opening a row puts
// another page on top: the goroutines of a site, then one goroutine. A page is one file: its columns, its orders, and what
// it opens.
//
// Names and reasons come from a program that may be hostile. All text goes through safe, which spells out what a terminal
// would obey or could not measure, and every line is cut to the width of the screen.
package tui
