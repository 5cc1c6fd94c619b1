package sets

import "github.com/loupe-go/loupe/internal/spans/join"

// maxCached bounds the texts in a Cache.
const maxCached = 1 << 10

// A Cache has what was made of texts that come again and again, such as the name of a server. Most requests have the same few, but a
// client may choose them, so a Cache is emptied when it is full.
type Cache[V any] struct {
	make   func(text string) V
	values map[string]V
}

// NewCache returns a Cache of what a function makes of texts.
func NewCache[V any](f func(text string) V) *Cache[V] {
	return &Cache[V]{f, map[string]V{}}
}

// Of returns what the function makes of a text. The function gets only valid UTF-8, as the texts of spans must be.
func (c *Cache[V]) Of(text []byte) V {
	v, ok := c.values[string(text)]
	if ok {
		return v
	}
	if len(c.values) >= maxCached {
		clear(c.values)
	}
	own := string(text)
	v = c.make(join.Valid(own))
	c.values[own] = v
	return v
}
