package overlay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sort"
)

// stampName is replaced by the fingerprint in the code of patches.
const stampName = "LOUPE_FINGERPRINT"

// fingerprintLength is the length of a fingerprint, in hexadecimal digits.
const fingerprintLength = 32

// hashOf returns a hash of a list of texts.
func hashOf(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:", len(t))
		io.WriteString(h, t)
	}
	return hex.EncodeToString(h.Sum(nil))[:fingerprintLength]
}

// fingerprint returns the hash of a release, of the sources that are replaced and of what replaces them.
func fingerprint(version string, stock, patched map[string][]byte) string {
	var names []string
	for name := range patched {
		names = append(names, name)
	}
	sort.Strings(names)
	texts := []string{version}
	for _, name := range names {
		texts = append(texts, name, string(stock[name]), string(patched[name]))
	}
	return hashOf(texts...)
}
