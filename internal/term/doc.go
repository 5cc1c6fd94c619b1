// Package term writes for terminals: text from foreign sources made harmless, colours where they are wanted, and
// progress on work that lasts.
//
// Its central type is Style. It knows nothing of what is written; packages report and cli do.
package term
