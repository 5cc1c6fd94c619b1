package malloc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestClasses compares the size classes with those of each release.
func TestClasses(t *testing.T) {
	for _, release := range testtarget.Versions() {
		t.Run(release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "maker", Go: release}))
			answer := target.Command("sizes") // of the first classes
			var minor int
			if _, err := fmt.Sscanf(release, "1.%d", &minor); err != nil {
				t.Fatal(err)
			}
			want := "sizes"
			sizes := sizingOf(minor).classes()
			for _, size := range sizes[:len(strings.Fields(answer))-1] {
				want += fmt.Sprint(" ", size)
			}
			if answer != want || !slices.Contains(sizes, 32768) {
				t.Errorf("%s\nwant %s", want, answer)
			}
		})
	}
}

// TestRounded looks up every small size in the array for the C half, as it does.
func TestRounded(t *testing.T) {
	for _, s := range sizings {
		words, err := s.roundedWords()
		if err != nil {
			t.Fatal(err)
		}
		at := func(i int) int { return int(byte(words[i/8] >> (i % 8 * 8))) }
		sizes := s.classes()
		for size := 1; size <= 32768; size++ {
			i, _ := slices.BinarySearch(sizes, size)
			var got int
			if size <= fineMax {
				got = at((size+7)/8) * 8
			} else {
				got = (at(fineMax/8+1+(size-fineMax+127)/128) + 1) * 128
			}
			if got != sizes[i] {
				t.Fatalf("from Go 1.%d on: %d bytes in an object of %d, want %d", s.since, size, got, sizes[i])
			}
		}
	}
}
