package loupe

// WithSingleUprobes returns the options with the kernel's uprobe_multi left alone, as on kernels that lack it.
func (o Options) WithSingleUprobes() Options {
	o.singleUprobes = true
	return o
}
