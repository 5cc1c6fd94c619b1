package writer

// Flush is trace.Writer.Flush.
func (w *Writer) Flush() error {
	switch {
	case w.closed:
		return errClosed
	case w.err != nil || !w.begun:
		return w.err
	}
	w.letGo()
	w.want = w.last + 1
	w.turnGeneration()
	return w.err
}
