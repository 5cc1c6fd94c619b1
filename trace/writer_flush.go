package trace

// Flush ends the generation, so that all events that were written can be read. The next event begins a new one. While
// there are no events but the GoStatus with which a stream begins, it does nothing.
func (w *Writer) Flush() error {
	switch {
	case w.closed:
		return errWriterClosed
	case w.err != nil || !w.begun:
		return w.err
	}
	w.letGo()
	w.want = w.last + 1
	w.turnGeneration()
	return w.err
}
