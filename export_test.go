package loupe

import "time"

// WithSingleUprobes returns the options with the kernel's uprobe_multi left alone, as on kernels that lack it.
func (o Options) WithSingleUprobes() Options {
	o.singleUprobes = true
	return o
}

// Unsure returns by how much CPU may be too much or too little, because it was not read at the moment when samples began or ended.
func (c *CPUProfile) Unsure() time.Duration { return c.unsure }
