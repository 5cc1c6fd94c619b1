//go:build !loupe_glti

package glti

var impl hooks = newStock()
