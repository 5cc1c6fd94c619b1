package english

import (
	"math"
	"testing"
)

func TestRates(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Rate(0), "0"}, {Rate(-1), "0"}, {Rate(math.NaN()), "0"}, {Rate(0.01), "<0.1"}, {Rate(0.44), "0.4"}, {Rate(3), "3"}, {Rate(9.96), "10"},
		{Rate(12.6), "13"}, {Rate(9999), "9,999"}, {Rate(12345), "12.3k"}, {Rate(999_999), "1.00M"},
		{Signed(0), "0"}, {Signed(120), "+120"}, {Signed(0.4), "+0.4"}, {Signed(-3), "-3"}, {Signed(-2.7), "-2.7"}, {Signed(-12.6), "-13"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}
